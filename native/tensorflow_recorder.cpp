// Lives of TensorFlow's eager tensors, seen in the three functions by which Python runs an operation.
//
// The code that TensorFlow generates for each operation calls them by their names in a module; we stand there in their
// stead, in every thread. What an operation takes is used, what it gives is born. TensorFlow's own callbacks say the
// same for ten times the cost: with one in place its runtime makes Python objects of all that goes in and out.
#include "array_lives.h"

#include <structmember.h>

namespace {

enum Flag : uint8_t { kPasses = 1, kTicks = 2 };  // gives its first input's buffer; is told when it is done

PyObject *ticked = nullptr;         // (number of an operation)
PyObject *only_device = nullptr;    // () -> the device that all tensors are on, or None if there are several
PyObject *device = nullptr;         // what it said
PyTypeObject *variables = nullptr;  // the class of variables
PyObject *s_enum, *s_shape, *s_device, *s_handle;
PyObject *described = nullptr;  // (type, shape, device) to its place in the next
std::vector<What> &whats = *new std::vector<What>;
std::vector<uint8_t> &flags = *new std::vector<uint8_t>;  // of operations

void settle() {}  // a tensor that an operation gave is complete
void settle_late(bool) {}

bool has(int32_t op, Flag flag) { return static_cast<size_t>(op) < flags.size() && flags[static_cast<size_t>(op)] & flag; }

// Where there is one device, it is not asked for with each tensor: TensorFlow makes a new text of it every time.
PyObject *device_of(PyObject *tensor) {
    if (!device) {
        device = PyObject_CallNoArgs(only_device);
        if (!device) {
            complain();
            device = Py_NewRef(Py_None);
        }
    }
    return device != Py_None ? Py_NewRef(device) : PyObject_GetAttr(tensor, s_device);
}

What what_is(PyObject *tensor) {
    PyObject *type = PyObject_CallMethodNoArgs(tensor, s_enum);
    PyObject *shape = type ? PyObject_CallMethodNoArgs(tensor, s_shape) : nullptr;
    PyObject *place = shape ? device_of(tensor) : nullptr;
    PyObject *parts = place ? PyTuple_Pack(3, type, shape, place) : nullptr;
    What what{-1, 0};
    if (PyObject *known = parts ? PyDict_GetItemWithError(described, parts) : nullptr) {
        what = whats[static_cast<size_t>(PyLong_AsSize_t(known))];
    } else if (parts && !PyErr_Occurred()) {
        what = told_of(parts);
        PyObject *number = PyLong_FromSize_t(whats.size());
        if (number && PyDict_SetItem(described, parts, number) == 0) whats.push_back(what);
        Py_XDECREF(number);
    }
    Py_XDECREF(type);
    Py_XDECREF(shape);
    Py_XDECREF(place);
    Py_XDECREF(parts);
    complain();
    return what;
}

void born(PyObject *tensor, int32_t op, uint32_t stack, int32_t kind, Life *shared) {
    if (Py_TYPE(tensor) != array_type || life_of(tensor)) return;
    What what = what_is(tensor);
    Life *life = what.number > 0 ? begin(tensor) : nullptr;
    if (!life) return;
    if (shared) return share(life, shared);
    life->bytes = what.bytes;
    life->what = what.number;
    life->op = op;
    life->stack = static_cast<int32_t>(stack);
    life->kind = kind;
    tell_birth(life);
}

// The life of what an operation takes; a variable's is that of its handle.
Life *taken(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == array_type) return life_of(value);
    if (PyUnicode_CheckExact(value) || PyLong_Check(value) || PyFloat_CheckExact(value) || value == Py_None) return nullptr;
    if (!variables || !PyType_IsSubtype(type, variables)) return nullptr;
    PyObject *handle = PyObject_GetAttr(value, s_handle);
    Life *life = handle && Py_TYPE(handle) == array_type ? life_of(handle) : nullptr;
    Py_XDECREF(handle);
    PyErr_Clear();
    return life;
}

// An operation is done: `args` are its inputs, or lists of them, and perhaps other things. One that is no list is passed by.
void done(PyObject *op, PyObject *const *args, Py_ssize_t count, PyObject *result) {
    int32_t number = number_of(op);
    uint32_t stack = capture(0);
    int64_t time = now();
    Life *first = nullptr;
    auto take = [&](PyObject *value, bool is_first) {
        Life *life = taken(value);
        if (!life || root_of(life)->ended) return;
        use(root_of(life), number, stack, time);
        if (is_first) first = root_of(life);
    };
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyList_CheckExact(args[i]) || PyTuple_CheckExact(args[i])) {
            for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(args[i]); at++)
                take(PySequence_Fast_GET_ITEM(args[i], at), i == 0 && at == 0);
        } else {
            take(args[i], i == 0);
        }
    }
    Life *shared = first && has(number, kPasses) ? first : nullptr;
    Py_XINCREF(reinterpret_cast<PyObject *>(shared));  // Python code may run below
    if (PyList_Check(result) || PyTuple_Check(result)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); i++) {
            PyObject *one = PySequence_Fast_GET_ITEM(result, i);
            if (PyList_CheckExact(one)) {
                for (Py_ssize_t at = 0; at < PyList_GET_SIZE(one); at++) born(PyList_GET_ITEM(one, at), number, stack, 0, shared);
            } else {
                born(one, number, stack, 0, shared);
            }
        }
    } else {
        born(result, number, stack, 0, shared);
    }
    Py_XDECREF(reinterpret_cast<PyObject *>(shared));
    if (has(number, kTicks)) {
        PyObject *answer = PyObject_CallFunction(ticked, "i", number);
        Py_XDECREF(answer);
        complain();
    }
}

// ---------------------------------------------------------------- what stands in for TensorFlow's own

PyObject *originals[3];

// (context, name of the operation, name of the node, inputs and attributes)
PyObject *fast(PyObject *, PyObject *const *args, Py_ssize_t count) {
    PyObject *result = PyObject_Vectorcall(originals[0], args, static_cast<size_t>(count), nullptr);
    if (result && active && count > 2) done(args[1], args + 3, count - 3, result);
    return result;
}

// (context, device, name of the operation, list of inputs, attributes, ...)
PyObject *execute(int which, PyObject *const *args, Py_ssize_t count) {
    PyObject *result = PyObject_Vectorcall(originals[which], args, static_cast<size_t>(count), nullptr);
    if (result && active && count > 3) done(args[2], args + 3, 1, result);
    return result;
}
PyObject *slow(PyObject *, PyObject *const *args, Py_ssize_t count) { return execute(1, args, count); }
PyObject *cancelable(PyObject *, PyObject *const *args, Py_ssize_t count) { return execute(2, args, count); }

PyMethodDef stand_ins[] = {
    {"TFE_Py_FastPathExecute", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(fast)), METH_FASTCALL, nullptr},
    {"TFE_Py_Execute", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(slow)), METH_FASTCALL, nullptr},
    {"TFE_Py_ExecuteCancelable", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(cancelable)), METH_FASTCALL, nullptr},
};

// ---------------------------------------------------------------- before and after what is written in Python

// Calls the original, and before and after it what stands beside it. In Python this would be a function around another, and
// a frame of ours in every traceback that passes it.
struct Around {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *original, *before, *after;  // (an argument); (whether it returned, what, that argument)
    Py_ssize_t at;                        // which argument
};

PyObject *around(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    auto *own = reinterpret_cast<Around *>(self);
    PyObject *first = PyVectorcall_NARGS(nargsf) > own->at ? args[own->at] : Py_None, *original = Py_NewRef(own->original);
    PyObject *after = active ? Py_NewRef(own->after) : Py_NewRef(Py_None);
    if (active && own->before != Py_None) {
        PyObject *done = PyObject_CallOneArg(own->before, first);
        Py_XDECREF(done);
        complain();
    }
    PyObject *result = PyObject_Vectorcall(original, args, nargsf, kwnames);
    if (after != Py_None) {
        Aside aside;
        PyObject *done = PyObject_CallFunctionObjArgs(after, result ? Py_True : Py_False, result ? result : Py_None, first, nullptr);
        Py_XDECREF(done);
        complain();
    }
    Py_DECREF(original);
    Py_DECREF(after);
    return result;
}

PyObject *bind(PyObject *self, PyObject *object, PyObject *) { return object ? PyMethod_New(self, object) : Py_NewRef(self); }

PyObject *attribute(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(reinterpret_cast<Around *>(self)->original, name);
}

void drop(PyObject *self) {
    auto *own = reinterpret_cast<Around *>(self);
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(own->original);
    Py_XDECREF(own->before);
    Py_XDECREF(own->after);
    type->tp_free(self);
    Py_DECREF(type);
}

PyTypeObject *make_around() {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(Around, vectorcall), READONLY, nullptr},
        {"__wrapped__", T_OBJECT, offsetof(Around, original), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    static PyType_Slot slots[] = {
        {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
        {Py_tp_descr_get, reinterpret_cast<void *>(bind)},
        {Py_tp_getattro, reinterpret_cast<void *>(attribute)},
        {Py_tp_dealloc, reinterpret_cast<void *>(drop)},
        {Py_tp_members, members},
        {0, nullptr},
    };
    static PyType_Spec spec = {"tenure_tensorflow_recorder.Around", sizeof(Around), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};
    return reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
}
PyTypeObject *AroundType = nullptr;

PyObject *py_around(PyObject *, PyObject *args) {
    PyObject *original, *before, *after;
    Py_ssize_t at = 0;
    if (!PyArg_ParseTuple(args, "OOO|n", &original, &before, &after, &at)) return nullptr;
    auto *made = PyObject_New(Around, AroundType);
    if (!made) return nullptr;
    made->vectorcall = around;
    made->original = Py_NewRef(original);
    made->before = Py_NewRef(before);
    made->after = Py_NewRef(after);
    made->at = at;
    return reinterpret_cast<PyObject *>(made);
}

// ---------------------------------------------------------------- the Python face

PyObject *py_start(PyObject *, PyObject *args) {
    PyObject *type, *capsule, *describing, *naming, *troubled, *classes, *tick, *devices;
    unsigned int first;
    if (!PyArg_ParseTuple(args, "O!OOOOIO!OO", &PyType_Type, &type, &capsule, &describing, &naming, &troubled, &first, &PyType_Type,
                          &classes, &tick, &devices))
        return nullptr;
    if (!start(type, capsule, describing, naming, troubled, first)) return nullptr;
    Py_INCREF(classes);
    Py_XSETREF(variables, reinterpret_cast<PyTypeObject *>(classes));
    replace(ticked, tick);
    replace(only_device, devices);
    Py_CLEAR(device);
    flags.clear();
    whats.clear();
    PyDict_Clear(described);
    Py_RETURN_NONE;
}

PyObject *py_stop(PyObject *, PyObject *) {
    active = false;
    Py_RETURN_NONE;
}

// stand_in(name, original): what to call instead of it.
PyObject *py_stand_in(PyObject *, PyObject *args) {
    const char *name;
    PyObject *original;
    if (!PyArg_ParseTuple(args, "sO", &name, &original)) return nullptr;
    for (int i = 0; i < 3; i++) {
        if (std::strcmp(stand_ins[i].ml_name, name)) continue;
        // Somebody may have put us back after we had gone.
        if (PyCFunction_Check(original) && PyCFunction_GET_FUNCTION(original) == stand_ins[i].ml_meth) return Py_NewRef(original);
        replace(originals[i], original);
        return PyCFunction_New(&stand_ins[i], nullptr);
    }
    return PyErr_Format(PyExc_ValueError, "%s has no replacement", name);
}

PyObject *py_flag(PyObject *, PyObject *args) {
    int number, passes, ticks;
    if (!PyArg_ParseTuple(args, "ipp", &number, &passes, &ticks)) return nullptr;
    if (number < 0) return PyErr_Format(PyExc_ValueError, "there is no operation %d", number);
    if (flags.size() <= static_cast<size_t>(number)) flags.resize(static_cast<size_t>(number) + 1);
    flags[static_cast<size_t>(number)] = static_cast<uint8_t>((passes ? kPasses : 0) | (ticks ? kTicks : 0));
    Py_RETURN_NONE;
}

PyObject *py_born(PyObject *, PyObject *args) {
    PyObject *tensor;
    int kind, there = 0;
    if (!PyArg_ParseTuple(args, "Oi|p", &tensor, &kind, &there)) return nullptr;
    if (active) born(tensor, 0, there ? 0 : capture(0), kind, nullptr);
    Py_RETURN_NONE;
}

// (whether it returned, what, what it was given), as `around` calls it.
PyObject *was_converted(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (active && count == 3 && args[0] == Py_True && args[1] != args[2]) {
        bool is_input = PyType_IsSubtype(Py_TYPE(args[2]), reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(self, 0)));
        auto kind = static_cast<int32_t>(PyLong_AsLong(PyTuple_GET_ITEM(self, is_input ? 1 : 2)));
        born(args[1], 0, capture(0), kind, nullptr);
    }
    Py_RETURN_NONE;
}

PyObject *was_made(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    PyObject *handle = active && count == 3 && args[0] == Py_True ? PyObject_GetAttr(args[2], s_handle) : nullptr;
    bool known = handle && Py_TYPE(handle) == array_type && life_of(handle);
    Py_XDECREF(handle);
    PyErr_Clear();
    return known ? Py_NewRef(Py_None) : PyObject_Vectorcall(self, args, static_cast<size_t>(count), nullptr);
}

PyMethodDef after_conversion = {"converted", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(was_converted)), METH_FASTCALL, nullptr};
PyMethodDef after_making = {"made", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(was_made)), METH_FASTCALL, nullptr};

PyObject *py_after_conversion(PyObject *, PyObject *args) {
    PyObject *type;
    int of_it, of_others;
    if (!PyArg_ParseTuple(args, "O!ii", &PyType_Type, &type, &of_it, &of_others)) return nullptr;
    return PyCFunction_New(&after_conversion, args);
}

PyObject *py_after_making(PyObject *, PyObject *call) { return PyCFunction_New(&after_making, call); }

PyObject *py_variable(PyObject *, PyObject *args) {
    PyObject *handle;
    int op, kind, what;
    long long bytes;
    if (!PyArg_ParseTuple(args, "OiiiL", &handle, &op, &kind, &what, &bytes)) return nullptr;
    if (!active || Py_TYPE(handle) != array_type || life_of(handle)) Py_RETURN_NONE;
    if (Life *life = begin(handle)) {
        life->bytes = bytes;
        life->what = what;
        life->op = op;
        life->kind = kind;
        life->stack = static_cast<int32_t>(capture(0));
        tell_birth(life);
    }
    Py_RETURN_NONE;
}

PyObject *py_is_a(PyObject *, PyObject *args) {
    PyObject *tensor;
    int kind;
    if (!PyArg_ParseTuple(args, "Oi", &tensor, &kind)) return nullptr;
    Life *life = active && Py_TYPE(tensor) == array_type ? life_of(tensor) : nullptr;
    if (life && !life->root && !life->kind) {
        life->kind = kind;
        add_row(life, kKind, now());
    }
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"start", py_start, METH_VARARGS, "start(class, capture, describe, name, trouble, first number, class of variables, ticked, only device)"},
    {"stop", py_stop, METH_NOARGS, "stop(): see no more; what was seen can still be read"},
    {"stand_in", py_stand_in, METH_VARARGS, "stand_in(name, original): what to call instead of it"},
    {"around", py_around, METH_VARARGS, "around(original, before, after): what to call instead of it, with these beside it"},
    {"flag", py_flag, METH_VARARGS, "flag(operation, passes, ticks): it passes its input's buffer on; tell when it is done"},
    {"born", py_born, METH_VARARGS, "born(tensor, kind, there=False): it was made, or was there before"},
    {"after_conversion", py_after_conversion, METH_VARARGS, "after_conversion(class, kind of what is made of it, of others): for `around`; what was made is born"},
    {"after_making", py_after_making, METH_O, "after_making(call): for `around`; called for a variable that has a handle of its own"},
    {"variable", py_variable, METH_VARARGS, "variable(handle, operation, kind, what, bytes): it was made"},
    {"is_a", py_is_a, METH_VARARGS, "is_a(tensor, kind): it was found out to be of this kind"},
    TENURE_ARRAY_METHODS,
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_tensorflow_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_tenure_tensorflow_recorder() {
    s_enum = PyUnicode_InternFromString("_datatype_enum");
    s_shape = PyUnicode_InternFromString("_shape_tuple");
    s_device = PyUnicode_InternFromString("device");
    s_handle = PyUnicode_InternFromString("_handle");
    described = PyDict_New();
    AroundType = make_around();
    if (!prepare("tenure_tensorflow_recorder.Life") || !s_handle || !described || !AroundType) return nullptr;
    return PyModule_Create(&module);
}
