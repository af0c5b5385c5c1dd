// Lives of JAX's arrays: births seen in tp_alloc, ends by weak references, uses in the calls of compiled functions.
//
// A compiled function is called through the vectorcall slot of its object, which is where we stand: the arrays among
// the arguments are its uses, those born until it returns are its results, and those that are deleted afterwards were
// donated. Nothing of this is visible in Python: the objects and their classes stay what they are.
//
// A new array is known to the garbage collector before it is filled in, so in tp_alloc no Python code runs once it
// exists and no collection does: its life waits until the next moment at which it is surely complete (the return of
// the call, the next birth, the interpreter's next instruction), when what it is can be read.
//
// Without a compiler, recording/jax.py looks at the living arrays instead.
#include "array_lives.h"

namespace {

enum { kDonate = 3 };  // as recording/jax.py lists the causes

bool scheduled = false;
allocfunc original_alloc = nullptr;
vectorcallfunc original_call = nullptr;

PyObject *leaves = nullptr;   // value -> list of what lies in it, for containers of others
PyObject *turned = nullptr;   // (stack, bytes, turn) -> whether a step is done when the call returns
PyObject *stepped = nullptr;  // ()
PyObject *readers = nullptr;  // tuple of the code of JAX's that reads an array on the host
PyObject *plain = nullptr;    // set of classes that hold no arrays
PyObject *s_name, *s_is_deleted, *s_aval, *s_sharding, *s_pointer, *s_is_ready, *s_traceback;
std::vector<Life *> &waiting = *new std::vector<Life *>;  // held

thread_local bool in_call = false, inside_alloc = false;
thread_local uint32_t call_stack = 0, call_turn = 0;
thread_local int32_t call_op = 0;

#include "jax_twins.h"

// ---------------------------------------------------------------- births

int settle_soon(void *) {
    Aside aside;
    scheduled = false;
    settle();
    return 0;
}

Life *wait_for(Life *life) {
    if (life) {
        Py_INCREF(reinterpret_cast<PyObject *>(life));
        waiting.push_back(life);
    }
    return life;
}

PyObject *birth(PyTypeObject *type, Py_ssize_t items);

// Somebody else may stand in the slot, before or after us, and may have put us behind himself: then our original
// leads back to us. The second time around is the class's own allocator.
PyObject *allocate(PyTypeObject *type, Py_ssize_t items) {
    if (inside_alloc || type->tp_alloc != birth) return PyType_GenericAlloc(type, items);
    inside_alloc = true;
    PyObject *made = original_alloc(type, items);
    inside_alloc = false;
    return made;
}

// JAX makes a second array of the same bytes to read one on the host, and keeps it with the first: it has no life of its own.
bool is_for_reading() {
    _PyInterpreterFrame *frame = top_frame(PyThreadState_Get());
    PyCodeObject *code = frame ? frame_code(frame) : nullptr;
    for (Py_ssize_t i = 0; code && i < PyTuple_GET_SIZE(readers); i++)
        if (PyTuple_GET_ITEM(readers, i) == reinterpret_cast<PyObject *>(code)) return true;
    return false;
}

PyObject *birth(PyTypeObject *type, Py_ssize_t items) {
    if (!active || inside_alloc || type != array_type || asking || is_for_reading()) return allocate(type, items);
    {
        Aside aside;
        settle();
    }
    int collecting = PyGC_Disable();
    PyObject *array = allocate(type, items);
    Life *life = array ? wait_for(begin(array)) : nullptr;
    if (life) {
        life->stack = static_cast<int32_t>(in_call ? call_stack : capture(0));
        life->op = in_call ? call_op : 0;
        life->turn = in_call ? call_turn : 0;
        life->called = in_call;
        if (!in_call && !scheduled) scheduled = Py_AddPendingCall(settle_soon, nullptr) == 0;
    }
    if (collecting) PyGC_Enable();
    return array;
}

// ---------------------------------------------------------------- calls

// The arrays that a call takes; held.
using Taken = std::vector<Life *>;

void take(Taken &taken, PyObject *value, int deep) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == array_type) {
        Life *life = life_of(value);
        if (life && !root_of(life)->ended) {
            Py_INCREF(reinterpret_cast<PyObject *>(life));
            taken.push_back(life);
        }
    } else if (deep > 32 || value == Py_None) {
        return;
    } else if (PyTuple_Check(value)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) take(taken, PyTuple_GET_ITEM(value, i), deep + 1);
    } else if (PyList_CheckExact(value)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); i++) take(taken, PyList_GET_ITEM(value, i), deep + 1);
    } else if (PyDict_CheckExact(value)) {
        PyObject *key, *item;
        Py_ssize_t at = 0;
        while (PyDict_Next(value, &at, &key, &item)) take(taken, item, deep + 1);
    } else if (PySet_Contains(plain, reinterpret_cast<PyObject *>(type)) == 0) {
        PyObject *found = PyObject_CallOneArg(leaves, value);
        if (found && PyList_CheckExact(found)) {
            if (PyList_GET_SIZE(found) == 1 && PyList_GET_ITEM(found, 0) == value) PySet_Add(plain, reinterpret_cast<PyObject *>(type));
            else take(taken, found, 32);
        }
        Py_XDECREF(found);
    }
    PyErr_Clear();
}

int32_t name_of(PyObject *function) {
    PyObject *name = PyObject_GetAttr(function, s_name);
    int32_t number = name && PyUnicode_CheckExact(name) ? number_of(name) : 0;
    Py_XDECREF(name);
    PyErr_Clear();
    return number;
}

// Note the uses. Whether this is a new turn of a loop: it takes what the same place gave; and with how many bytes.
int64_t note_uses(const Taken &taken, int64_t time) {
    int64_t carried = 0;
    for (Life *life : taken) {
        use(root_of(life), call_op, call_stack, time);
        if (life->called && life->stack == static_cast<int32_t>(call_stack) && life->op == call_op) {
            carried += life->bytes;
            call_turn = std::max(call_turn, life->turn + 1);
        }
    }
    return carried;
}

bool ask_turned(int64_t carried) {
    PyObject *answer = PyObject_CallFunction(turned, "ILI", call_stack, static_cast<long long>(carried), call_turn);
    bool done = answer == Py_True;
    Py_XDECREF(answer);
    complain();
    return done;
}

#include "jax_donations.h"

// What was deleted is at its end. If some of what was offered was not, a list of all that was.
PyObject *donated(Taken &taken, const std::vector<bool> &offered) {
    bool kept = false;
    for (size_t i = 0; i < taken.size(); i++) {
        Life *life = taken[i];
        PyObject *array = array_of(life);
        if (active && !root_of(life)->ended && array) {
            Py_INCREF(array);
            if (says(array, s_is_deleted)) end(root_of(life), kDonate, call_stack);
            else kept |= offered[i];
            Py_DECREF(array);
        }
    }
    PyObject *arrays = kept ? PyList_New(0) : nullptr;
    for (size_t i = 0; i < taken.size(); i++) {
        if (arrays && offered[i] && array_of(taken[i])) PyList_Append(arrays, array_of(taken[i]));
        Py_DECREF(reinterpret_cast<PyObject *>(taken[i]));
    }
    taken.clear();
    return arrays;
}

PyObject *call(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (!active || in_call) return original_call(function, args, nargsf, kwnames);
    Py_ssize_t count = PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    settle();
    in_call = true;
    call_stack = capture(0);
    call_op = name_of(function);
    call_turn = 0;
    thread_local Taken taken;
    thread_local std::vector<bool> offered;  // of each of those
    const Offer &offer = offer_of(function);
    for (Py_ssize_t i = 0; i < count; i++) {
        take(taken, args[i], 0);
        offered.resize(taken.size(), is_offered(offer, i, PyVectorcall_NARGS(nargsf), kwnames));
    }
    int64_t carried = note_uses(taken, now());
    bool done = call_turn && ask_turned(carried);
    PyObject *result = original_call(function, args, nargsf, kwnames);
    Aside aside;
    settle();
    if (PyObject *arrays = donated(taken, offered)) {
        PyObject *answer = result ? PyObject_CallFunction(refused, "OIOO", function, call_stack, arrays, result) : nullptr;
        Py_XDECREF(answer);
        Py_DECREF(arrays);
        complain();
    }
    offered.clear();
    in_call = false;
    if (done && active) {
        PyObject *answer = PyObject_CallNoArgs(stepped);
        Py_XDECREF(answer);
        complain();
    }
    return result;
}

vectorcallfunc *slot_of(PyObject *function) {
    Py_ssize_t offset = Py_TYPE(function)->tp_vectorcall_offset;
    return offset > 0 ? reinterpret_cast<vectorcallfunc *>(reinterpret_cast<char *>(function) + offset) : nullptr;
}

// ---------------------------------------------------------------- the Python face

PyObject *py_enrol(PyObject *, PyObject *function) {
    vectorcallfunc *slot = slot_of(function);
    if (!slot || *slot == call) Py_RETURN_FALSE;
    if (original_call && *slot != original_call) Py_RETURN_FALSE;  // not the kind of function that we know
    withdraw(function);
    original_call = *slot;
    *slot = call;
    Py_RETURN_TRUE;
}

PyObject *py_release(PyObject *, PyObject *function) {
    vectorcallfunc *slot = slot_of(function);
    if (slot && *slot == call) *slot = original_call;
    withdraw(function);
    Py_RETURN_NONE;
}

PyObject *py_start(PyObject *, PyObject *args) {
    PyObject *type, *capsule, *describing, *naming, *troubled, *a, *b, *c, *d, *e, *codes;
    unsigned int first;
    if (!PyArg_ParseTuple(args, "O!OOOOIOOOOOO!", &PyType_Type, &type, &capsule, &describing, &naming, &troubled, &first, &a, &b, &c,
                          &d, &e, &PyTuple_Type, &codes))
        return nullptr;
    if (!start(type, capsule, describing, naming, troubled, first)) return nullptr;
    forget_descriptions();
    forget_wholes(true);
    replace(leaves, a);
    replace(turned, b);
    replace(stepped, c);
    replace(offering, d);
    replace(refused, e);
    replace(readers, codes);
    if (array_type->tp_alloc != birth) {
        original_alloc = array_type->tp_alloc;
        array_type->tp_alloc = birth;
    }
    Py_RETURN_NONE;
}

PyObject *py_stop(PyObject *, PyObject *) {
    settle();
    settle_late(true);
    active = false;
    forget_descriptions();
    forget_wholes(true);
    if (array_type && array_type->tp_alloc == birth) array_type->tp_alloc = original_alloc;
    Py_RETURN_NONE;
}

// adopt(array, stack): an array that was there before; `stack` is below zero, as the caller counts its texts.
PyObject *py_adopt(PyObject *, PyObject *args) {
    PyObject *array;
    int stack;
    if (!PyArg_ParseTuple(args, "Oi", &array, &stack)) return nullptr;
    if (active && Py_TYPE(array) == array_type && !life_of(array)) {
        if (Life *life = wait_for(begin(array))) life->stack = stack, life->called = true;
        settle();
    }
    Py_RETURN_NONE;
}

// end(array, cause): it was deleted.
PyObject *py_end(PyObject *, PyObject *args) {
    PyObject *array;
    int cause;
    if (!PyArg_ParseTuple(args, "Oi", &array, &cause)) return nullptr;
    settle();
    Life *life = active && Py_TYPE(array) == array_type ? life_of(array) : nullptr;
    if (life) end(root_of(life), cause, capture(0));
    Py_RETURN_NONE;
}

// unseen(function, ...): the result of this call of tenure's own, for which JAX may make arrays. A leak check may run in the
// middle of a compiled call, whose results these would seem to be.
PyObject *py_unseen(PyObject *, PyObject *const *args, Py_ssize_t count) {
    if (count < 1) return PyErr_Format(PyExc_TypeError, "unseen() takes a function");
    bool before = asking;
    asking = true;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, static_cast<size_t>(count - 1), nullptr);
    asking = before;
    return result;
}

// gone(): the living arrays that were deleted without our knowledge.
PyObject *py_gone(PyObject *, PyObject *) {
    PyObject *living = PyList_New(0), *found = PyList_New(0);
    for (Life *life = ring.after; living && found && life != &ring; life = life->after)
        if (life->settled && !root_of(life)->ended && array_of(life) && PyList_Append(living, array_of(life)) < 0) Py_CLEAR(found);
    for (Py_ssize_t i = 0; living && found && i < PyList_GET_SIZE(living); i++) {
        PyObject *array = PyList_GET_ITEM(living, i);
        if (says(array, s_is_deleted)) PyList_Append(found, array);
    }
    Py_XDECREF(living);
    return found;
}

PyMethodDef methods[] = {
    {"start", py_start, METH_VARARGS, "start(class, capture, describe, name, trouble, first number, leaves, turned, stepped, offering, refused, readers)"},
    {"stop", py_stop, METH_NOARGS, "stop(): see no more; what was seen can still be read"},
    {"enrol", py_enrol, METH_O, "enrol(function): see the calls of this compiled function"},
    {"release", py_release, METH_O, "release(function): give it its own call back"},
    {"adopt", py_adopt, METH_VARARGS, "adopt(array, stack): it was there before"},
    {"end", py_end, METH_VARARGS, "end(array, cause)"},
    {"unseen", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(py_unseen)), METH_FASTCALL,
     "unseen(function, ...): its result; arrays made meanwhile are not recorded"},
    {"gone", py_gone, METH_NOARGS, "gone(): arrays that were deleted unseen"},
    TENURE_ARRAY_METHODS,
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_jax_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_tenure_jax_recorder() {
    s_aval = PyUnicode_InternFromString("aval");
    s_sharding = PyUnicode_InternFromString("_sharding");  // not the property around it
    s_name = PyUnicode_InternFromString("__name__");
    s_is_deleted = PyUnicode_InternFromString("is_deleted");
    s_is_ready = PyUnicode_InternFromString("is_ready");
    s_traceback = PyUnicode_InternFromString("traceback");
    s_pointer = PyUnicode_InternFromString("unsafe_buffer_pointer");
    plain = PySet_New(nullptr);
    if (!prepare("tenure_jax_recorder.Life") || !plain || !s_is_ready || !s_pointer || !s_traceback) return nullptr;
    return PyModule_Create(&module);
}
