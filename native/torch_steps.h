// Included by torch_recorder_python.h: an optimizer's step, seen from its hooks in Python.

// The arguments of a step that is one operation. They end with its frame, so that also one that fails is over.
void end_arguments(PyObject *arguments) {
    if (Self *self = here(); self && self->whole.on && self->whole.arguments == arguments) end_whole();
    PyTuple_Type.tp_dealloc(arguments);
}

PyTypeObject Arguments = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "tenure.Arguments",
    .tp_basicsize = sizeof(PyTupleObject) - sizeof(PyObject *),
    .tp_itemsize = sizeof(PyObject *),
    .tp_dealloc = end_arguments,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_base = &PyTuple_Type,
};

// begin_whole(name, arguments, up): what this thread does from now on is one operation, until these are gone.
PyObject *py_begin_whole(PyObject *, PyObject *args) {
    const char *name;
    PyObject *values;
    int up;
    if (!PyArg_ParseTuple(args, "sO!i", &name, &PyTuple_Type, &values, &up)) return nullptr;
    PyObject *made = PyObject_CallOneArg(reinterpret_cast<PyObject *>(&Arguments), values);
    if (made) begin_whole(name, made, up);
    return made;
}

PyObject *of_impl = nullptr;  // what gives the address of a tensor's TensorImpl, as a number
size_t impl_at = 0;           // where in a tensor's object that address is

bool know_tensors(PyObject *tensors) {
    if (!of_impl) of_impl = PyObject_GetAttrString(tensors, "_cdata");
    if (of_impl && !Py_IS_TYPE(of_impl, &PyGetSetDescr_Type)) PyErr_Format(PyExc_TypeError, "torch's _cdata is %R", of_impl);
    return !PyErr_Occurred();
}

// The tensors among these things; they are held meanwhile.
struct Tensors {
    std::vector<PyObject *> found;
    Tensors() { found.reserve(256); }
    explicit Tensors(PyObject *list) {
        found.reserve(static_cast<size_t>(PyList_GET_SIZE(list)));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) add(PyList_GET_ITEM(list, i));
    }
    ~Tensors() {
        for (PyObject *each : found) Py_DECREF(each);
    }
    void add(PyObject *value) {
        if (PyObject_TypeCheck(value, PyDescr_TYPE(of_impl))) found.push_back(Py_NewRef(value));
    }

    static c10::TensorImpl *asked(PyObject *tensor) {
        using namespace at::impl;
        auto before = PythonTorchFunctionTLS::get_disabled_state();
        PythonTorchFunctionTLS::set_disabled_state(TorchFunctionDisabledState::ALL_DISABLED);  // torch itself is to answer
        PyObject *number = Py_TYPE(of_impl)->tp_descr_get(of_impl, tensor, reinterpret_cast<PyObject *>(Py_TYPE(tensor)));
        PythonTorchFunctionTLS::set_disabled_state(before);
        auto *impl = number ? reinterpret_cast<c10::TensorImpl *>(PyLong_AsUnsignedLongLong(number)) : nullptr;
        Py_XDECREF(number);
        if (!PyErr_Occurred()) return impl;
        PyErr_Clear();  // the step goes on
        return nullptr;
    }
    static c10::TensorImpl *read(PyObject *tensor, size_t at) {
        c10::TensorImpl *impl;
        std::memcpy(&impl, reinterpret_cast<char *>(tensor) + at, sizeof impl);
        return impl;
    }

    // The first is asked; where in it the answer lies, that of all others lies in them.
    template <class With>
    void each(With with) {
        auto *first = found.empty() ? nullptr : asked(found[0]);
        if (!first) impl_at = 0;
        else if (!impl_at || read(found[0], impl_at) != first) {
            size_t end = static_cast<size_t>(PyDescr_TYPE(of_impl)->tp_basicsize);
            for (impl_at = sizeof(PyObject); impl_at + sizeof first <= end && read(found[0], impl_at) != first;) impl_at += sizeof first;
            if (impl_at + sizeof first > end) impl_at = 0;
        }
        for (PyObject *tensor : found)
            if (auto *impl = impl_at ? read(tensor, impl_at) : asked(tensor)) with(impl);
    }
};

// stepped(parameter groups, state): an optimizer's step is done. What its gradients lie on are gradients; if it was one
// operation, that took all of these. How many things the state consists of.
PyObject *py_stepped(PyObject *, PyObject *args) {
    PyObject *groups, *state;
    if (!PyArg_ParseTuple(args, "OO", &groups, &state)) return nullptr;
    Tensors parameters, states;  // none where somebody's own optimizer has neither list nor dict
    for (Py_ssize_t i = 0; PyList_Check(groups) && i < PyList_GET_SIZE(groups); i++) {
        PyObject *group = PyList_GET_ITEM(groups, i);
        PyObject *list = PyDict_Check(group) ? PyDict_GetItemString(group, "params") : nullptr;
        for (Py_ssize_t k = 0; list && PyList_Check(list) && k < PyList_GET_SIZE(list); k++) parameters.add(PyList_GET_ITEM(list, k));
    }
    Self *self = here();
    bool whole = self->whole.on;
    PyObject *values, *value;
    Py_ssize_t size = 0;
    for (Py_ssize_t outer = 0; PyDict_Check(state) && PyDict_Next(state, &outer, nullptr, &values);) {
        size += PyDict_Check(values) ? PyDict_GET_SIZE(values) : PyList_Check(values) ? PyList_GET_SIZE(values) : 1;
        if (!PyDict_Check(values)) continue;
        for (Py_ssize_t inner = 0; whole && PyDict_Next(values, &inner, nullptr, &value);) states.add(value);
    }
    uint64_t time = ticks();
    if (whole) tell_numbers(self);
    auto take = [&](c10::TensorImpl *impl) {  // whose shape was told in the steps before, or when it became a gradient
        c10::StorageImpl *storage = nullptr;
        void *where = address(impl, storage);
        if (where && whole) used<false>(self, time, impl, storage, where);
        return where;
    };
    parameters.each([&](c10::TensorImpl *impl) {
        const at::Tensor &gradient = impl->grad();
        void *where = gradient.defined() ? take(gradient.unsafeGetTensorImpl()) : nullptr;
        if (where) tell(self, time, kKind, where, kGradient, 0, 0, 0);
        take(impl);
    });
    states.each(take);
    end_whole();
    return PyLong_FromSsize_t(size);
}
