// The Python face of the recorder: included by torch_recorder.cpp, inside its namespace. No logic here.

at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;

PyObject *py_start(PyObject *, PyObject *stacks) {
    take_stack = reinterpret_cast<CaptureStack>(PyCapsule_GetPointer(stacks, kCaptureCapsule));
    if (!take_stack) return nullptr;
    earlier = Clock{};
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
                                       .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
    return PyBool_FromLong(before_delete != nullptr);
}

PyObject *py_stop(PyObject *, PyObject *) {
    if (active.exchange(false)) {
        at::removeCallback(handle);
        if (before_delete) c10::SetCPUAllocator(before, 200);
    }
    Py_RETURN_NONE;
}

template <class T>
PyObject *column(const std::vector<T> &values) {
    return PyBytes_FromStringAndSize(reinterpret_cast<const char *>(values.data()), static_cast<Py_ssize_t>(values.size() * sizeof(T)));
}

// take(last): the columns of what happened since, as a dict of bytes.
PyObject *py_take(PyObject *, PyObject *last) {
    Rows rows;
    Py_BEGIN_ALLOW_THREADS
    look_after_strangers();
    drain(last == Py_True);
    {  // never held while waiting for the GIL
        std::lock_guard<std::mutex> lock(reading);
        std::swap(rows, lives.rows);
    }
    Py_END_ALLOW_THREADS
    return Py_BuildValue("{sNsNsNsNsNsNsNsNsNsNsNsNsNsNsNsNsN}", "time", column(rows.time), "bytes", column(rows.bytes),
                         "last_use", column(rows.last_use), "event", column(rows.event), "device", column(rows.device),
                         "shape", column(rows.shape), "op", column(rows.op), "stack", column(rows.stack), "thread",
                         column(rows.thread), "step", column(rows.step), "scope", column(rows.scope), "kind",
                         column(rows.kind), "cause", column(rows.cause), "last_op", column(rows.last_op), "last_stack",
                         column(rows.last_stack), "buffer", column(rows.buffer), "uses", column(rows.uses));
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

PyObject *py_step(PyObject *, PyObject *number) {
    tell(here(), ticks(), kStep, nullptr, PyLong_AsUnsignedLongLong(number), 0, 0, 0);
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

// forked(): in a child, whose other threads are gone and whose parent writes what came before.
PyObject *py_forked(PyObject *, PyObject *) {
    for (auto *lock : {&registry, &reading, &meeting, &naming}) new (lock) std::mutex;
    chunks.forked();
    selves.assign(1, here());
    here()->queue.read(UINT64_MAX, [](const Event &) {});
    lives.clear();
    strangers.clear();
    generation++;
    earlier = Clock{};
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"start", py_start, METH_O, "start(capsule): begin; whether allocations on the host can be seen"},
    {"stop", py_stop, METH_NOARGS, "stop(): end"},
    {"take", py_take, METH_O, "take(last): the columns of what happened since"},
    {"words", py_words, METH_VARARGS, "words(what, from): the words above this number"},
    {"step", py_step, METH_O, "step(number): the step that begins"},
    {"scope", py_scope, METH_O, "scope(number): the scope that this thread is in"},
    {"cause", py_cause, METH_O, "cause(number): why this thread ends what it ends; the cause before"},
    {"kind", py_kind, METH_VARARGS, "kind(address, number): what the bytes there are"},
    {"seed", py_seed, METH_O, "seed(address of a TensorImpl): it was there before"},
    {"counts", py_counts, METH_NOARGS, "counts(): births, uses, ends, bytes alive on the host"},
    {"forked", py_forked, METH_NOARGS, "forked(): forget the parent's"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_torch_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
