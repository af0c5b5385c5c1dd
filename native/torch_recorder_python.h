// The Python face of the recorder: included by torch_recorder.cpp, inside its namespace. No logic here.

at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;

// What was read last, and the stream's numbers of words; touched only by the thread that reads.
Rows &held = *new Rows;
Learnt &learnt = *new Learnt;

PyObject *py_start(PyObject *, PyObject *stacks) {
    take_stack = reinterpret_cast<CaptureStack>(PyCapsule_GetPointer(stacks, kCaptureCapsule));
    if (!take_stack) return nullptr;
    earlier = Clock{};
    learnt.clear();
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
    handle = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                       .needsInputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
    return PyBool_FromLong(before_delete != nullptr);
}

PyObject *py_stop(PyObject *, PyObject *) {
    if (active.exchange(false)) {
        end_whole();
        at::removeCallback(handle);
        if (before_delete) c10::SetCPUAllocator(before, 200);
    }
    Py_RETURN_NONE;
}

// read(last): hold the columns of what happened since; how many rows, and the largest number of a stack in them.
PyObject *py_read(PyObject *, PyObject *last) {
    Rows rows;
    Py_BEGIN_ALLOW_THREADS
    look_after_strangers();
    drain(last == Py_True);
    {  // never held while waiting for the GIL
        std::lock_guard<std::mutex> lock(reading);
        std::swap(rows, lives.rows);
    }
    Py_END_ALLOW_THREADS
    held = std::move(rows);
    return size(held);
}

PyObject *py_learn(PyObject *, PyObject *args) { return learn(learnt, args); }

// columns(offset): what is held.
PyObject *py_columns(PyObject *, PyObject *argument) {
    long long offset = PyLong_AsLongLong(argument);
    if (offset == -1 && PyErr_Occurred()) return nullptr;
    PyObject *made = Columns(held, learnt).made(offset);
    held = Rows{};
    return made;
}

// words(what, from): the words with these numbers and above: "op", "shape" or "thread".
PyObject *py_words(PyObject *, PyObject *args) {
    const char *what;
    Py_ssize_t from;
    if (!PyArg_ParseTuple(args, "sn", &what, &from)) return nullptr;
    PyObject *result = PyList_New(0);
    auto add = [&](PyObject *word) {
        if (word && result) PyList_Append(result, word);
        Py_XDECREF(word);
    };
    if (!std::strcmp(what, "op")) {
        for (size_t i = static_cast<size_t>(from); i < name_texts.size(); i++) add(PyUnicode_FromString(name_texts[i]->c_str()));
    } else if (!std::strcmp(what, "shape")) {
        for (size_t i = static_cast<size_t>(from); i < shape_texts.size(); i++) {
            std::string sizes = "[";
            for (int64_t size : shape_texts[i].sizes) sizes += (sizes.size() > 1 ? ", " : "") + std::to_string(size);
            add(Py_BuildValue("(ss)", (sizes + "]").c_str(), c10::toString(shape_texts[i].type)));
        }
    } else {
        std::lock_guard<std::mutex> lock(registry);
        for (size_t i = static_cast<size_t>(from); i < threads.size(); i++) add(PyUnicode_FromString(threads[i].c_str()));
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

// kind(address of the bytes, number)
PyObject *py_kind(PyObject *, PyObject *args) {
    unsigned long long where, kind;
    if (!PyArg_ParseTuple(args, "KK", &where, &kind)) return nullptr;
    tell(here(), ticks(), kKind, reinterpret_cast<void *>(where), kind, 0, 0, 0);
    Py_RETURN_NONE;
}

template <class With>
bool each_address(PyObject *list, With with) {
    if (!PyList_Check(list)) return PyErr_SetString(PyExc_TypeError, "a list is needed"), false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        auto *impl = reinterpret_cast<c10::TensorImpl *>(PyLong_AsUnsignedLongLong(PyList_GET_ITEM(list, i)));
        if (!impl) return false;
        with(impl);
    }
    return true;
}

// gradients(addresses of TensorImpls): what their gradients lie on is a gradient.
PyObject *py_gradients(PyObject *, PyObject *list) {
    bool right = each_address(list, [](c10::TensorImpl *impl) {
        c10::StorageImpl *storage = nullptr;
        const at::Tensor &gradient = impl->grad();
        void *where = gradient.defined() ? address(gradient, storage) : nullptr;
        if (where) tell(here(), ticks(), kKind, where, kGradient, 0, 0, 0);
    });
    if (!right) return nullptr;
    Py_RETURN_NONE;
}

// begin_whole(name): what this thread does from now on is one operation.
PyObject *py_begin_whole(PyObject *, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    begin_whole(text);
    Py_RETURN_NONE;
}

// end_whole(parameters, state): it is done, and took these TensorImpls and the gradients of the first; None if it only ends.
PyObject *py_end_whole(PyObject *, PyObject *args) {
    PyObject *parameters, *state;
    if (!PyArg_ParseTuple(args, "OO", &parameters, &state)) return nullptr;
    Self *self = here();
    bool right = true;
    if (self && self->whole.on && parameters != Py_None) {
        uint64_t time = ticks();
        auto take = [&](c10::TensorImpl *impl) {
            taken(self, time, at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl)));
        };
        right = each_address(parameters, [&](c10::TensorImpl *impl) {
            take(impl);
            if (const at::Tensor &gradient = impl->grad(); gradient.defined()) taken(self, time, gradient);
        }) && each_address(state, take);
    }
    end_whole();
    if (!right) return nullptr;
    Py_RETURN_NONE;
}

// seed(address of a TensorImpl): it was there before.
PyObject *py_seed(PyObject *, PyObject *number) {
    auto *impl = reinterpret_cast<c10::TensorImpl *>(PyLong_AsUnsignedLongLong(number));
    if (PyErr_Occurred()) return nullptr;
    if (impl->has_storage()) {
        auto *storage = impl->unsafe_storage().unsafeGetStorageImpl();
        void *where = storage->_mutable_data_ptr_no_checks().get();
        uint32_t shape = here()->shape(impl);
        if (where && storage->_mutable_data_ptr_no_checks().get_deleter() == &traced_delete) {
            tell(here(), ticks(), kForeign, where, storage->nbytes(), 0, 0, flags(storage->device(), false));
            tell(here(), ticks(), kShape, where, shape, 0, 0, 0);
        } else if (where) {
            meet(here(), storage, where, shape, 0);
        }
    }
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
    drain(true);
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

// crossed(): in how many steps an operation took a tensor whose graph is of an earlier step.
PyObject *py_crossed(PyObject *, PyObject *) { return PyLong_FromLong(crossed); }

// forked(): in a child, whose other threads are gone and whose parent writes what came before.
PyObject *py_forked(PyObject *, PyObject *) {
    for (auto *lock : {&registry, &reading, &meeting, &naming}) new (lock) std::mutex;
    chunks.forked();
    selves.assign(1, here());
    here()->queue.read(UINT64_MAX, [](const Event &) {});
    lives.clear();
    strangers.clear();
    generation++;
    learnt.clear();
    earlier = Clock{};
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"start", py_start, METH_O, "start(capsule): begin; whether allocations on the host can be seen"},
    {"stop", py_stop, METH_NOARGS, "stop(): end"},
    {"read", py_read, METH_O, "read(last): hold what happened since; rows, and the largest stack's number"},
    {"learn", py_learn, METH_VARARGS, "learn(what, numbers): the stream's numbers of the next words"},
    {"columns", py_columns, METH_O, "columns(offset): what is held"},
    {"words", py_words, METH_VARARGS, "words(what, from): the words above this number"},
    {"step", py_step, METH_VARARGS, "step(number, tell): the step that begins; whether the end of the last is told"},
    {"scope", py_scope, METH_O, "scope(number): the scope that this thread is in"},
    {"cause", py_cause, METH_O, "cause(number): why this thread ends what it ends; the cause before"},
    {"kind", py_kind, METH_VARARGS, "kind(address, number): what the bytes there are"},
    {"gradients", py_gradients, METH_O, "gradients(addresses of TensorImpls): mark their gradients"},
    {"begin_whole", py_begin_whole, METH_O, "begin_whole(name): what this thread does from now on is one operation"},
    {"end_whole", py_end_whole, METH_VARARGS, "end_whole(parameters, state): it is done, and took these"},
    {"seed", py_seed, METH_O, "seed(address of a TensorImpl): it was there before"},
    {"counts", py_counts, METH_NOARGS, "counts(): births, uses, ends, bytes alive on the host"},
    {"on_failure", py_on_failure, METH_O, "on_failure(function): called with the bytes of an allocation that fails"},
    {"crowds", py_crowds, METH_NOARGS, "crowds(): the living in sums, by the stack they were born at"},
    {"members", py_members, METH_O, "members(stacks): the addresses of those born there"},
    {"crossed", py_crossed, METH_NOARGS, "crossed(): in how many steps a graph of an earlier step was used"},
    {"forked", py_forked, METH_NOARGS, "forked(): forget the parent's"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_torch_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
