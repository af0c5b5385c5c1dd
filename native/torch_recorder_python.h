// The Python face of the recorder: included by torch_recorder.cpp, inside its namespace. No logic here.

// What was read last, and the stream's numbers of words; touched only by the thread that reads.
Rows &held = *new Rows;
Learnt &learnt = *new Learnt;

at::CallbackHandle operations = at::INVALID_CALLBACK_HANDLE;  // while torch has our callbacks

#include "torch_steps.h"

// start(stacks, the class of all tensors)
PyObject *py_start(PyObject *, PyObject *args) {
    PyObject *stacks, *tensors;
    if (!PyArg_ParseTuple(args, "OO!", &stacks, &PyType_Type, &tensors)) return nullptr;
    if (!know_tensors(tensors) || PyType_Ready(&Arguments) < 0) return nullptr;
    take_stack = reinterpret_cast<CaptureStack>(PyCapsule_GetPointer(stacks, kCaptureCapsule));
    if (!take_stack) return nullptr;
    earlier = Clock{};
    learnt.clear();
    unseen = 0;
    if (!before) {
        before = c10::GetCPUAllocator();
        before_delete = before->raw_deleter();
    }
    {
        std::lock_guard<std::mutex> lock(reading);
        lives.clear();
    }
    {
        std::lock_guard<std::mutex> lock(meeting);
        strangers.clear();
        generation++;
    }
    if (before_delete) c10::SetCPUAllocator(&traced, 200);
    active = true;
    if (operations == at::INVALID_CALLBACK_HANDLE) {
        operations = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
        find_listeners();
    }
    stand_in_for_torch(true);
    return PyBool_FromLong(before_delete != nullptr);
}

PyObject *py_stop(PyObject *, PyObject *) {
    if (active.exchange(false)) {
        end_whole();
        stand_in_for_torch(false);
        // In a child made by fork they stay, and do nothing: another thread may have held torch's lock when it was made.
        if (!is_forked_child) at::removeCallback(operations), operations = at::INVALID_CALLBACK_HANDLE;
        if (before_delete) c10::SetCPUAllocator(before, 200);
    }
    Py_RETURN_NONE;
}

// read(last): hold the columns of what happened since; how many rows, and the largest number of a stack in them.
PyObject *py_read(PyObject *, PyObject *last) {
    Py_BEGIN_ALLOW_THREADS
    look_after_strangers();
    drain(last == Py_True, last == Py_True);
    held.clear();
    {  // never held while waiting for the GIL
        std::lock_guard<std::mutex> lock(reading);
        std::swap(held, lives.rows);
    }
    Py_END_ALLOW_THREADS
    return size(held);
}

PyObject *py_learn(PyObject *, PyObject *args) { return learn(learnt, args); }

// columns(offset): what is held.
PyObject *py_columns(PyObject *, PyObject *argument) {
    long long offset = PyLong_AsLongLong(argument);
    if (offset == -1 && PyErr_Occurred()) return nullptr;
    PyObject *made = Columns(held, learnt).made(offset);
    held.clear();
    return made;
}

// words(what, from): the words with these numbers and above: "op", "shape" or "thread".
PyObject *py_words(PyObject *, PyObject *args) {
    const char *what;
    Py_ssize_t from;
    if (!PyArg_ParseTuple(args, "sn", &what, &from)) return nullptr;
    std::vector<std::string> texts;
    std::vector<Shape> found;
    // Threads that do not have the GIL add to these: they are copied, and no lock is held while Python makes objects.
    auto since = [&](const auto &all, auto copy) { std::for_each(all.begin() + std::min<ptrdiff_t>(from, std::ssize(all)), all.end(), copy); };
    if (!std::strcmp(what, "thread")) {
        std::lock_guard<std::mutex> lock(registry);
        since(threads, [&](const std::string &text) { texts.push_back(text); });
    } else {
        std::lock_guard<std::mutex> lock(naming);
        if (!std::strcmp(what, "op")) since(name_texts, [&](const std::string *text) { texts.push_back(*text); });
        else since(shape_texts, [&](const Shape &shape) { found.push_back(shape); });
    }
    PyObject *result = PyList_New(0);
    auto add = [&](PyObject *word) {
        if (word && result) PyList_Append(result, word);
        Py_XDECREF(word);
    };
    for (const std::string &text : texts) add(PyUnicode_FromString(text.c_str()));
    for (const Shape &shape : found) {
        std::string sizes = "[";
        for (int64_t size : shape.sizes) sizes += (sizes.size() > 1 ? ", " : "") + std::to_string(size);
        add(Py_BuildValue("(ss)", (sizes + "]").c_str(), c10::toString(shape.type)));
    }
    return result;
}

PyObject *py_step(PyObject *, PyObject *args) {
    unsigned long long number;
    int told;
    if (!PyArg_ParseTuple(args, "Kp", &number, &told)) return nullptr;
    step_before = step_began.exchange(at::sequence_number::peek());
    has_crossed = false;
    tell(here(), ticks(), kStep, nullptr, number, 0, 0, told ? 0 : kSilent);
    Py_RETURN_NONE;
}

PyObject *py_scope(PyObject *, PyObject *number) {
    tell(here(), ticks(), kScope, nullptr, PyLong_AsUnsignedLongLong(number), 0, 0, 0);
    Py_RETURN_NONE;
}

PyObject *py_cause(PyObject *, PyObject *number) {
    uint8_t old = here()->cause;
    here()->cause = static_cast<uint8_t>(PyLong_AsLong(number));
    return PyLong_FromLong(old);
}

// kind(tensors, number): what their bytes are. Whatever else is in the list is ignored.
PyObject *py_kind(PyObject *, PyObject *args) {
    PyObject *list;
    unsigned long long kind;
    if (!PyArg_ParseTuple(args, "O!K", &PyList_Type, &list, &kind)) return nullptr;
    Self *self = here();
    Tensors tensors(list);
    uint64_t time = ticks();
    tensors.each([&](c10::TensorImpl *impl) {
        c10::StorageImpl *storage = nullptr;
        if (void *where = address(impl, storage)) tell(self, time, kKind, where, kind, 0, 0, 0);
    });
    Py_RETURN_NONE;
}

// fresh(): a step of this thread's that failed is over.
PyObject *py_fresh(PyObject *, PyObject *) {
    if (Self *self = here()) look_for_whole(self);
    Py_RETURN_NONE;
}

// direct(wanted): whether torch's own calls tell of nodes, if they can; whether they do. For a recorder that is at work.
PyObject *py_direct(PyObject *, PyObject *wanted) { return PyBool_FromLong(stand_in_for_torch(active && wanted == Py_True)); }

// seed(tensors): they were there before. What has no bytes on the host (a wrapper, a symbolic tensor) is ignored.
PyObject *py_seed(PyObject *, PyObject *list) {
    if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "seed takes a list, not %R", Py_TYPE(list));
    Self *self = here();
    Tensors(list).each([&](c10::TensorImpl *impl) {
        c10::StorageImpl *storage = nullptr;
        void *where = address(impl, storage);
        if (!where || storage->device_type() != c10::kCPU) return;
        uint32_t shape = self->shape(impl);
        if (storage->_mutable_data_ptr_no_checks().get_deleter() == &traced_delete) {
            tell(self, ticks(), kForeign, where, storage->nbytes(), 0, 0, flags(storage->device(), false));
            tell(self, ticks(), kShape, where, shape, 0, 0, 0);
        } else {
            meet(self, storage, where, shape, 0);
        }
    });
    Py_RETURN_NONE;
}

// counts(): births, uses and ends so far, and the bytes alive on the host.
PyObject *py_counts(PyObject *, PyObject *) {
    uint64_t births, uses, ends;
    int64_t alive;
    Py_BEGIN_ALLOW_THREADS
    {
        std::lock_guard<std::mutex> lock(reading);
        births = lives.births, uses = lives.uses, ends = lives.ends, alive = lives.alive(0);
    }
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(KKKL)", births, uses, ends, static_cast<long long>(alive));
}

// on_failure(function): called with the bytes of each allocation on the host that fails; None for nobody.
PyObject *py_on_failure(PyObject *, PyObject *function) {
    Py_XSETREF(on_failure, function == Py_None ? nullptr : Py_NewRef(function));
    Py_RETURN_NONE;
}

// crowds(): the living in sums, by the stack they were born at: columns of stack, count, bytes, last use and steps (bits).
PyObject *py_crowds(PyObject *, PyObject *) {
    std::unordered_map<uint32_t, Lives::Crowd> found;
    Py_BEGIN_ALLOW_THREADS
    look_after_strangers();
    drain(true, false);
    {
        std::lock_guard<std::mutex> lock(reading);
        found = lives.crowds();
    }
    Py_END_ALLOW_THREADS
    std::vector<int64_t> columns[5];
    for (auto &[stack, crowd] : found) {
        const int64_t values[] = {stack, crowd.count, crowd.bytes, crowd.last_use, static_cast<int64_t>(crowd.steps)};
        for (int i = 0; i < 5; i++) columns[i].push_back(values[i]);
    }
    return Py_BuildValue("(NNNNN)", column(columns[0]), column(columns[1]), column(columns[2]), column(columns[3]), column(columns[4]));
}

// graphs(): the stacks whose operations added nodes to an autograd graph.
PyObject *py_graphs(PyObject *, PyObject *) {
    std::vector<int64_t> found;
    Py_BEGIN_ALLOW_THREADS
    drain(true, false);
    {
        std::lock_guard<std::mutex> lock(reading);
        found = lives.graphs();
    }
    Py_END_ALLOW_THREADS
    return column(found);
}

// members(stacks): the addresses of those that were born at one of these stacks, the oldest first.
PyObject *py_members(PyObject *, PyObject *list) {
    if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "a list is needed");
    std::vector<uint32_t> stacks;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) stacks.push_back(static_cast<uint32_t>(PyLong_AsUnsignedLong(PyList_GET_ITEM(list, i))));
    if (PyErr_Occurred()) return nullptr;
    std::vector<int64_t> found;
    Py_BEGIN_ALLOW_THREADS
    {
        std::lock_guard<std::mutex> lock(reading);
        found = lives.members(stacks);
    }
    Py_END_ALLOW_THREADS
    return column(found);
}

// unseen(): the kinds of devices that tensors lie on and whose memory is not recorded.
PyObject *py_unseen(PyObject *, PyObject *) {
    PyObject *names = PyList_New(0);
    for (int type = 0; names && type < 32; type++) {
        if (!(unseen >> type & 1)) continue;
        std::string text = c10::DeviceTypeName(static_cast<c10::DeviceType>(type), true);
        PyObject *name = PyUnicode_FromString(text.c_str());
        if (!name || PyList_Append(names, name) < 0) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

// crossed(): in how many steps an operation took a tensor whose graph is of an earlier step.
PyObject *py_crossed(PyObject *, PyObject *) { return PyLong_FromLong(crossed); }

// forked(): in a child, whose other threads are gone and whose parent writes what came before.
PyObject *py_forked(PyObject *, PyObject *) {
    selves.assign(1, here());
    end_whole();
    here()->queue.read(UINT64_MAX, [](const Event &) {});
    lives.clear();
    strangers.clear();
    generation++;
    learnt.clear();
    earlier = Clock{};
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"start", py_start, METH_VARARGS, "start(capsule, class): begin; whether allocations on the host can be seen"},
    {"stop", py_stop, METH_NOARGS, "stop(): end"},
    {"read", py_read, METH_O, "read(last): hold what happened since; rows, and the largest stack's number"},
    {"learn", py_learn, METH_VARARGS, "learn(what, numbers): the stream's numbers of the next words"},
    {"columns", py_columns, METH_O, "columns(offset): what is held"},
    {"words", py_words, METH_VARARGS, "words(what, from): the words above this number"},
    {"step", py_step, METH_VARARGS, "step(number, tell): the step that begins; whether the end of the last is told"},
    {"scope", py_scope, METH_O, "scope(number): the scope that this thread is in"},
    {"cause", py_cause, METH_O, "cause(number): why this thread ends what it ends; the cause before"},
    {"kind", py_kind, METH_VARARGS, "kind(tensors, number): what their bytes are"},
    {"fresh", py_fresh, METH_NOARGS, "fresh(): a step of this thread's that failed is over"},
    {"direct", py_direct, METH_O, "direct(wanted): whether torch's own calls tell of autograd's nodes"},
    {"begin_whole", py_begin_whole, METH_VARARGS, "begin_whole(name, arguments, up): what this thread does from now on is one operation"},
    {"stepped", py_stepped, METH_VARARGS, "stepped(parameter groups, state): an optimizer's step is done; the size of its state"},
    {"seed", py_seed, METH_O, "seed(tensors): they were there before"},
    {"counts", py_counts, METH_NOARGS, "counts(): births, uses, ends, bytes alive on the host"},
    {"on_failure", py_on_failure, METH_O, "on_failure(function): called with the bytes of an allocation that fails"},
    {"crowds", py_crowds, METH_NOARGS, "crowds(): the living in sums, by the stack they were born at"},
    {"members", py_members, METH_O, "members(stacks): the addresses of those born there"},
    {"graphs", py_graphs, METH_NOARGS, "graphs(): the stacks whose operations added nodes to an autograd graph"},
    {"unseen", py_unseen, METH_NOARGS, "unseen(): the kinds of devices whose memory is not recorded"},
    {"crossed", py_crossed, METH_NOARGS, "crossed(): in how many steps a graph of an earlier step was used"},
    {"forked", py_forked, METH_NOARGS, "forked(): forget the parent's"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_torch_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
