/* Lives of arrays: births seen in tp_alloc, ends by weak references, uses in the calls of compiled functions.
 *
 * A compiled function is called through the vectorcall slot of its object, which is where we stand: the arrays among
 * the arguments are its uses, those born until it returns are its results, and those that are deleted afterwards were
 * donated. Nothing of this is visible in Python: the objects and their classes stay what they are.
 *
 * A new array is known to the garbage collector before it is filled in, so in tp_alloc no Python code runs once it
 * exists and no collection does: its life waits until the next moment at which it is surely complete (the return of
 * the call, the next birth, the interpreter's next instruction), when what it is can be read.
 *
 * A life is a weak reference with some numbers behind it. It is found again from the array's own list of weak
 * references, so no table goes from arrays to lives. What happened is kept as rows of plain numbers, which the
 * writer's thread takes all at once. Without a compiler, recording/jax.py looks at the living arrays instead.
 */
#include "array_lives.h"

static PyTypeObject *array_type = NULL;
static int scheduled = 0;
static allocfunc original_alloc = NULL;
static vectorcallfunc original_call = NULL;

static PyObject *leaves = NULL;              /* value -> list of what lies in it, for containers of others */
static PyObject *turned = NULL;              /* (stack, bytes, turn) -> whether a step is done when the call returns */
static PyObject *stepped = NULL;             /* () */
static PyObject *names = NULL, *named = NULL; /* names of functions: dict to number, list */
static PyObject *plain = NULL;               /* set of classes that hold no arrays */
static PyObject *s_name, *s_is_deleted;

static __thread int depth = 0, inside_alloc = 0;
static __thread uint32_t call_stack = 0, call_turn = 0;
static __thread int32_t call_op = -1;

static int settle_soon(void *unused) {
    scheduled = 0;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    settle();
    PyErr_Restore(type, value, trace);
    return 0;
}

static PyObject *birth(PyTypeObject *type, Py_ssize_t items);

/* Somebody else may stand in the slot, before or after us, and may have put us behind himself: then our original
 * leads back to us. The second time around is the class's own allocator. */
static PyObject *allocate(PyTypeObject *type, Py_ssize_t items) {
    if (inside_alloc || type->tp_alloc != birth) return PyType_GenericAlloc(type, items);
    inside_alloc = 1;
    PyObject *made = original_alloc(type, items);
    inside_alloc = 0;
    return made;
}

static PyObject *birth(PyTypeObject *type, Py_ssize_t items) {
    if (!active || inside_alloc || type != array_type) return allocate(type, items);
    PyObject *error, *value, *trace;
    PyErr_Fetch(&error, &value, &trace);
    settle();
    PyErr_Restore(error, value, trace);
    int collecting = PyGC_Disable();
    PyObject *array = allocate(type, items);
    Life *life = array ? begin(array) : NULL;
    if (life) {
        life->stack = depth ? call_stack : capture(0);
        life->op = depth ? call_op : -1;
        life->turn = depth ? call_turn : 0;
        life->called = depth > 0;
        if (!depth && !scheduled) scheduled = Py_AddPendingCall(settle_soon, NULL) == 0;
    }
    if (collecting) PyGC_Enable();
    return array;
}

/* The arrays that a call takes. */
typedef struct {
    Life **lives;
    Py_ssize_t count, room;
} Taken;

static void take(Taken *taken, PyObject *value, int deep) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == array_type) {
        Life *life = life_of(value);
        if (life && life->settled && !life->ended
            && make_room((void **)&taken->lives, taken->count, &taken->room, sizeof(Life *))) {
            Py_INCREF((PyObject *)life);
            taken->lives[taken->count++] = life;
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
    } else if (PySet_Contains(plain, (PyObject *)type) == 0) {
        PyObject *found = PyObject_CallOneArg(leaves, value);
        if (found && PyList_CheckExact(found)) {
            if (PyList_GET_SIZE(found) == 1 && PyList_GET_ITEM(found, 0) == value) PySet_Add(plain, (PyObject *)type);
            else take(taken, found, 32);
        }
        Py_XDECREF(found);
    }
    PyErr_Clear();
}

static int32_t name_of(PyObject *function) {
    int32_t number = -1;
    PyObject *name = PyObject_GetAttr(function, s_name);
    if (name && PyUnicode_CheckExact(name)) {
        PyObject *known = PyDict_GetItemWithError(names, name);
        if (known) {
            number = (int32_t)PyLong_AsLong(known);
        } else {
            PyObject *fresh = PyLong_FromSsize_t(PyList_GET_SIZE(named));
            if (fresh && PyList_Append(named, name) == 0 && PyDict_SetItem(names, name, fresh) == 0)
                number = (int32_t)PyLong_AsLong(fresh);
            Py_XDECREF(fresh);
        }
    }
    Py_XDECREF(name);
    PyErr_Clear();
    return number;
}

/* Note the uses. Whether this is a new turn of a loop: it takes what the same place gave; and with how many bytes. */
static int64_t use(Taken *taken, int64_t time) {
    int64_t carried = 0;
    for (Py_ssize_t i = 0; i < taken->count; i++) {
        Life *life = taken->lives[i];
        life->uses++;
        life->last_use = time;
        life->last_op = call_op;
        life->last_stack = call_stack;
        if (life->called && life->stack == call_stack && life->op == call_op) {
            carried += life->bytes;
            if (life->turn >= call_turn) call_turn = life->turn + 1;
        }
    }
    return carried;
}

static int ask_turned(int64_t carried) {
    PyObject *answer = PyObject_CallFunction(turned, "ILI", call_stack, (long long)carried, call_turn);
    int done = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    return done;
}

static void donated(Taken *taken) {
    for (Py_ssize_t i = 0; i < taken->count; i++) {
        Life *life = taken->lives[i];
        PyObject *array = array_of(life);
        if (active && !life->ended && array) {
            Py_INCREF(array);
            PyObject *gone = PyObject_CallMethodNoArgs(array, s_is_deleted);
            if (gone == Py_True) end(life, DONATE, call_stack);
            Py_XDECREF(gone);
            Py_DECREF(array);
        }
        Py_DECREF((PyObject *)life);
    }
    PyMem_RawFree(taken->lives);
    PyErr_Clear();
}

static PyObject *call(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (!active || depth) return original_call(function, args, nargsf, kwnames);
    Py_ssize_t count = PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    settle();
    depth = 1;
    call_stack = capture(0);
    call_op = name_of(function);
    call_turn = 0;
    Taken taken = {NULL, 0, 0};
    for (Py_ssize_t i = 0; i < count; i++) take(&taken, args[i], 0);
    int64_t carried = use(&taken, now());
    int done = call_turn ? ask_turned(carried) : 0;
    PyObject *result = original_call(function, args, nargsf, kwnames);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    settle();
    donated(&taken);
    depth = 0;
    if (done && active) {
        PyObject *answer = PyObject_CallNoArgs(stepped);
        Py_XDECREF(answer);
        PyErr_Clear();
    }
    PyErr_Restore(type, value, trace);
    return result;
}

static vectorcallfunc *slot_of(PyObject *function) {
    Py_ssize_t offset = Py_TYPE(function)->tp_vectorcall_offset;
    return offset > 0 ? (vectorcallfunc *)((char *)function + offset) : NULL;
}

static PyObject *py_enrol(PyObject *self, PyObject *function) {
    vectorcallfunc *slot = slot_of(function);
    if (!slot || *slot == call) Py_RETURN_FALSE;
    if (original_call && *slot != original_call) Py_RETURN_FALSE; /* not the kind of function that we know */
    original_call = *slot;
    *slot = call;
    Py_RETURN_TRUE;
}

static PyObject *py_release(PyObject *self, PyObject *function) {
    vectorcallfunc *slot = slot_of(function);
    if (slot && *slot == call) *slot = original_call;
    Py_RETURN_NONE;
}

static void forget(void) {
    for (Py_ssize_t i = 0; i < waiting_count; i++) Py_DECREF((PyObject *)waiting[i]);
    waiting_count = row_count = 0;
    first_number = last_number; /* what is older is passed over */
    PyObject *fresh = PyList_New(0);
    if (fresh) Py_XSETREF(whats, fresh);
    if (seen) PyDict_Clear(seen);
    while (ring.after != &ring) unlink_life(ring.after);
    PyErr_Clear();
}

/* start(array class, capsule, measure, leaves, turned, stepped) */
static PyObject *py_start(PyObject *self, PyObject *args) {
    PyObject *type, *capsule, *a, *b, *c, *d;
    unsigned int first;
    if (!PyArg_ParseTuple(args, "O!OOOOOI", &PyType_Type, &type, &capsule, &a, &b, &c, &d, &first)) return NULL;
    CaptureStack found = (CaptureStack)PyCapsule_GetPointer(capsule, kCaptureCapsule);
    if (!found) return NULL;
    capture = found;
    Py_INCREF(type); Py_XSETREF(array_type, (PyTypeObject *)type);
    Py_INCREF(a); Py_XSETREF(measure, a);
    Py_INCREF(b); Py_XSETREF(leaves, b);
    Py_INCREF(c); Py_XSETREF(turned, c);
    Py_INCREF(d); Py_XSETREF(stepped, d);
    if (first > last_number) last_number = first;
    step = 0;
    forget();
    if (array_type->tp_alloc != birth) {
        original_alloc = array_type->tp_alloc;
        array_type->tp_alloc = birth;
    }
    active = 1;
    Py_RETURN_NONE;
}

static PyObject *py_stop(PyObject *self, PyObject *unused) {
    settle();
    active = 0;
    if (array_type && array_type->tp_alloc == birth) array_type->tp_alloc = original_alloc;
    Py_RETURN_NONE;
}

static PyObject *py_forget(PyObject *self, PyObject *unused) {
    forget();
    Py_RETURN_NONE;
}

/* adopt(array, stack): an array that was there before; `stack` is below zero, as the caller counts its texts. */
static PyObject *py_adopt(PyObject *self, PyObject *args) {
    PyObject *array;
    long long stack;
    if (!PyArg_ParseTuple(args, "OL", &array, &stack)) return NULL;
    if (active && Py_TYPE(array) == array_type && !life_of(array)) {
        Life *life = begin(array);
        if (life) { life->stack = stack; life->called = 1; }
        settle();
    }
    Py_RETURN_NONE;
}

/* end(array, cause): it was deleted. */
static PyObject *py_end(PyObject *self, PyObject *args) {
    PyObject *array;
    int cause;
    if (!PyArg_ParseTuple(args, "Oi", &array, &cause)) return NULL;
    settle();
    Life *life = active && Py_TYPE(array) == array_type ? life_of(array) : NULL;
    if (life) end(life, cause, capture(0));
    Py_RETURN_NONE;
}

static PyObject *py_step(PyObject *self, PyObject *number) {
    long value = PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred()) return NULL;
    settle();
    step = (int32_t)value;
    Py_RETURN_NONE;
}

static PyObject *py_inside(PyObject *self, PyObject *args) {
    int place, cause;
    if (!PyArg_ParseTuple(args, "ii", &place, &cause)) return NULL;
    if (place >= 0) scope = place;
    if (cause >= 0) cause_now = cause;
    Py_RETURN_NONE;
}

/* take() -> (rows as bytes, list of (aval, sharding, bytes), names of functions) */
static PyObject *py_take(PyObject *self, PyObject *unused) {
    settle();
    for (Life *life = ring.after; life != &ring; life = life->after) {
        if (!life->settled || life->ended || life->uses <= life->told) continue;
        life->told = life->uses;
        add_row(life, USE, life->last_use);
    }
    PyObject *fresh = PyList_New(0);
    PyObject *data = fresh ? PyBytes_FromStringAndSize((char *)rows, row_count * (Py_ssize_t)sizeof(Row)) : NULL;
    if (!data) { Py_XDECREF(fresh); return NULL; }
    row_count = 0;
    PyDict_Clear(seen);
    PyObject *old = whats;
    whats = fresh;
    return Py_BuildValue("(NNO)", data, old, named);
}

/* gone(): the living arrays that were deleted without our knowledge. */
static PyObject *py_gone(PyObject *self, PyObject *unused) {
    PyObject *living = PyList_New(0), *found = PyList_New(0);
    if (!living || !found) goto failed;
    for (Life *life = ring.after; life != &ring; life = life->after)
        if (life->settled && !life->ended && array_of(life) && PyList_Append(living, array_of(life)) < 0) goto failed;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(living); i++) {
        PyObject *array = PyList_GET_ITEM(living, i);
        PyObject *gone = PyObject_CallMethodNoArgs(array, s_is_deleted);
        if (gone == Py_True && PyList_Append(found, array) < 0) PyErr_Clear();
        Py_XDECREF(gone);
        PyErr_Clear();
    }
    Py_DECREF(living);
    return found;
failed:
    Py_XDECREF(living);
    Py_XDECREF(found);
    return NULL;
}

static PyMethodDef methods[] = {
    {"start", py_start, METH_VARARGS, "start(class, capture, measure, leaves, turned, stepped, first number)"},
    {"stop", py_stop, METH_NOARGS, "stop(): see no more; what was seen can still be taken"},
    {"forget", py_forget, METH_NOARGS, "forget(): begin anew, as in a child process"},
    {"enrol", py_enrol, METH_O, "enrol(function): see the calls of this compiled function"},
    {"release", py_release, METH_O, "release(function): give it its own call back"},
    {"adopt", py_adopt, METH_VARARGS, "adopt(array, stack): it was there before"},
    {"end", py_end, METH_VARARGS, "end(array, cause)"},
    {"step", py_step, METH_O, "step(number): what comes belongs to this one"},
    {"inside", py_inside, METH_VARARGS, "inside(scope, cause): of this thread from now on; below zero: as it is"},
    {"take", py_take, METH_NOARGS, "take(): rows since the last time, what they are about, names"},
    {"gone", py_gone, METH_NOARGS, "gone(): arrays that were deleted unseen"},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef died_method = {"died", died, METH_O, NULL};
static PyType_Slot life_slots[] = {{0, NULL}};
static PyType_Spec life_spec = {"tenure_array_births.Life", sizeof(Life), 0, Py_TPFLAGS_DEFAULT, life_slots};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_array_births", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tenure_array_births(void) {
    ring.before = ring.after = &ring;
    s_aval = PyUnicode_InternFromString("aval");
    s_sharding = PyUnicode_InternFromString("sharding");
    s_name = PyUnicode_InternFromString("__name__");
    s_is_deleted = PyUnicode_InternFromString("is_deleted");
    s_pointer = PyUnicode_InternFromString("unsafe_buffer_pointer");
    names = PyDict_New();
    named = PyList_New(0);
    plain = PySet_New(NULL);
    whats = PyList_New(0);
    seen = PyDict_New();
    on_death = PyCFunction_New(&died_method, NULL);
    PyObject *bases = PyTuple_Pack(1, (PyObject *)&_PyWeakref_RefType);
    LifeType = bases ? (PyTypeObject *)PyType_FromSpecWithBases(&life_spec, bases) : NULL;
    Py_XDECREF(bases);
    if (!LifeType || !on_death || !seen || !whats || !plain || !named || !names || !s_is_deleted) return NULL;
    return PyModule_Create(&module);
}
