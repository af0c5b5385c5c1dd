/* Birth hook: tells the scope that owns the running code about every new tensor handle.
 *
 * Frameworks make a Python handle by calling tp_alloc of its type. We stand in that slot, so every handle is seen
 * exactly once, by identity, whatever made it (an op, a conversion, a view, DLPack), and an op that returns its
 * input unchanged is not mistaken for a birth.
 *
 * Two rules keep this safe. The new object is already known to the garbage collector but not yet filled in, so no
 * collection may run before we return: the collector is off in here. For the same reason no Python code may run in
 * here: it could switch threads. `births_twin.py` is the readable twin of this file, and its fallback.
 */
#include "frames.h"
#include <string.h>
#include <structmember.h>

typedef struct {
    PyTypeObject *type;
    allocfunc original;
    Py_ssize_t heirs;  /* direct subclasses, before it was last asked which of them to watch; -1 if it was not */
    PyObject *users;   /* counts the native users of a handle, who hold it by one reference together, and runs no Python
                        * code; or None */
    int in_library;    /* whether a cap may be compared, and raise, while its library's own code runs */
} Watched;

static Watched *watched = NULL;
static Py_ssize_t watched_count = 0;

static PyObject *var = NULL;       /* ContextVar: the region that the running context is in */
static PyObject *generators = NULL; /* dict: frame of a generator -> its regions, outermost first */
static PyObject *s_running;

/* Where a region keeps what: regions have __slots__. */
static const char *const SLOTS[] = {"noted", "outer", "frame", "agen", "limit", "check"};
enum { BIRTHS, OUTER, FRAME, AGEN, LIMIT, CHECK, SLOT_COUNT };
static Py_ssize_t offsets[SLOT_COUNT];

#include "births_code.h"

/* Borrowed: what a region keeps there. */
static PyObject *slot(PyObject *region, int which) {
    PyObject *value = *(PyObject **)((char *)region + offsets[which]);
    return value ? value : Py_None;
}

static int find_slots(PyObject *kind) {
    for (int which = 0; which < SLOT_COUNT; which++) {
        PyObject *found = PyObject_GetAttrString(kind, SLOTS[which]);
        if (!found) return -1;
        int is_slot = Py_IS_TYPE(found, &PyMemberDescr_Type);
        if (is_slot) offsets[which] = ((PyMemberDescrObject *)found)->d_member->offset;
        Py_DECREF(found); /* the class keeps it */
        if (!is_slot) {
            PyErr_Format(PyExc_TypeError, "%s is not a slot of %R", SLOTS[which], kind);
            return -1;
        }
    }
    return 0;
}

/* A generator that stands at a `yield` is not running its scope: its consumer is. */
static int is_suspended(PyObject *region) {
    PyObject *agen = slot(region, AGEN);
    if (agen != Py_None) {
        PyObject *running = PyObject_GetAttr(agen, s_running);
        if (!running) { PyErr_Clear(); return 0; }
        int suspended = running != Py_True;
        Py_DECREF(running);
        return suspended;
    }
    PyObject *frame = slot(region, FRAME);
    if (frame == Py_None) return 0;
    PyFrameObject *back = PyFrame_GetBack((PyFrameObject *)frame);
    Py_XDECREF(back);
    return back == NULL;
}

static int has_ended(PyObject *region) { return slot(region, BIRTHS) == Py_None; }

/* The innermost open region of a generator that is on this thread's stack, or NULL. */
static PyObject *running_generator_region(PyObject *without) {
    for (_PyInterpreterFrame *frame = top_frame(PyThreadState_Get()); frame; frame = frame->previous) {
        if (!frame_code(frame) || !frame->frame_obj) continue;
        PyObject *regions = PyDict_GetItemWithError(generators, (PyObject *)frame->frame_obj);
        if (!regions) { PyErr_Clear(); continue; }
        for (Py_ssize_t i = PyList_GET_SIZE(regions) - 1; i >= 0; i--) {
            PyObject *region = PyList_GET_ITEM(regions, i);
            if (region != without && !has_ended(region)) return region;
        }
    }
    return NULL;
}

/* Borrowed: the region that owns the code running now, or NULL. */
static PyObject *resolve(PyObject *without) {
    PyObject *inherited = NULL;
    if (PyContextVar_Get(var, Py_None, &inherited) < 0) { PyErr_Clear(); return NULL; }
    PyObject *region = inherited;
    Py_DECREF(inherited); /* the context keeps it */
    while (region != Py_None && (region == without || has_ended(region) || is_suspended(region)))
        region = slot(region, OUTER);
    if (PyDict_GET_SIZE(generators)) {
        PyObject *running = running_generator_region(without);
        if (running) {
            for (PyObject *outer = region; outer != Py_None; outer = slot(outer, OUTER))
                if (outer == running) return region;
            return running;
        }
    }
    return region == Py_None ? NULL : region;
}

#include "births_latest.h"

#include "births_cap.h"

static PyObject *birth(PyTypeObject *type, Py_ssize_t items) {
    allocfunc original = PyType_GenericAlloc;
    int in_library = 0;
    for (Py_ssize_t i = 0; i < watched_count; i++) {
        if (watched[i].type != type) continue;
        original = watched[i].original;
        in_library = watched[i].in_library;
        break;
    }
    PyObject *region = resolve(NULL);
    if (!region) return original(type, items);
    Py_INCREF(region);
    if (slot(region, CHECK) != Py_None || full.region) compare_with_cap(region, in_library);
    make_room(region);
    int collecting = PyGC_Disable();
    PyObject *handle = original(type, items);
    if (handle) record(region, handle);
    if (collecting) PyGC_Enable();
    Py_DECREF(region);
    return handle;
}

static PyObject *py_setup(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c, *d, *kind;
    Py_ssize_t fewest;
    if (!PyArg_ParseTuple(args, "OO!O!O!O!n", &a, &PyDict_Type, &b, &PyTuple_Type, &c, &PyTuple_Type, &d, &PyType_Type,
                          &kind, &fewest))
        return NULL;
    PyObject *fresh = PyDict_New();
    if (!fresh) return NULL;
    if (find_slots(kind) < 0) { Py_DECREF(fresh); return NULL; }
    for (int i = 0; i < JUDGED * 2; i++) {
        uintptr_t old = judged[i / 2][i % 2];
        judged[i / 2][i % 2] = 0;
        Py_XDECREF((PyObject *)(old & ~(uintptr_t)ANSWER));
    }
    Py_INCREF(a); Py_XSETREF(var, a);
    Py_INCREF(b); Py_XSETREF(generators, b);
    Py_INCREF(c); Py_XSETREF(prefixes, c);
    Py_INCREF(d); Py_XSETREF(compilers, d);
    Py_XSETREF(files, fresh);
    least = fewest;
    Py_RETURN_NONE;
}

/* -1 if that cannot be known: a class of the interpreter's own keeps them elsewhere. */
static Py_ssize_t heirs_of(PyTypeObject *type) {
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return -1;
    PyObject *known = (PyObject *)type->tp_subclasses; /* by address, weakly */
    return known ? PyDict_GET_SIZE(known) : 0;
}

/* Whoever lists subclasses keeps them, so one that is new shows in their number. */
static PyObject *py_resume(PyObject *self, PyObject *unused) {
    int is_known = 1;
    for (Py_ssize_t i = 0; i < watched_count; i++) {
        Py_ssize_t now = heirs_of(watched[i].type);
        if (now < 0 || now != watched[i].heirs) is_known = 0;
        watched[i].heirs = now;
    }
    if (!is_known) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < watched_count; i++) {
        PyTypeObject *type = watched[i].type;
        if (type->tp_alloc == birth) continue;
        watched[i].original = type->tp_alloc;
        type->tp_alloc = birth;
    }
    Py_RETURN_TRUE;
}

static PyObject *py_watch(PyObject *self, PyObject *args) {
    PyObject *type, *users;
    int in_library;
    if (!PyArg_ParseTuple(args, "O!Op", &PyType_Type, &type, &users, &in_library)) return NULL;
    PyTypeObject *t = (PyTypeObject *)type;
    Py_ssize_t at = 0;
    while (at < watched_count && watched[at].type != t) at++;
    if (at == watched_count) {
        Watched *grown = PyMem_Realloc(watched, (watched_count + 1) * sizeof(Watched));
        if (!grown) return PyErr_NoMemory();
        watched = grown;
        Py_INCREF(type); /* a watched class must not be reused for another while we hold its address */
        watched[watched_count].original = PyType_GenericAlloc; /* a class made from a watched one has `birth` already */
        watched[watched_count].heirs = -1;
        watched[watched_count].users = NULL;
        watched[watched_count++].type = t;
    }
    Py_INCREF(users);
    Py_XSETREF(watched[at].users, users);
    watched[at].in_library = in_library;
    if (t->tp_alloc != birth) {
        watched[at].original = t->tp_alloc;
        t->tp_alloc = birth;
    }
    Py_RETURN_NONE;
}

static PyObject *py_unwatch(PyObject *self, PyObject *unused) {
    for (Py_ssize_t i = 0; i < watched_count; i++)
        if (watched[i].type->tp_alloc == birth) watched[i].type->tp_alloc = watched[i].original;
    Py_RETURN_NONE;
}

static PyObject *py_settle(PyObject *self, PyObject *unused) {
    note_latest(0);
    Py_RETURN_NONE;
}

static PyObject *py_close(PyObject *self, PyObject *args) {
    PyObject *region;
    int spare;
    if (!PyArg_ParseTuple(args, "Op", &region, &spare)) return NULL;
    while (latest_region == region) note_latest(spare); /* which may run what makes more */
    PyObject **noted = (PyObject **)((char *)region + offsets[BIRTHS]), *births = *noted;
    Py_INCREF(Py_None);
    *noted = Py_None;
    return births;
}

static PyObject *py_current(PyObject *self, PyObject *without) {
    PyObject *region = resolve(without);
    if (!region) Py_RETURN_NONE;
    Py_INCREF(region);
    return region;
}

/* Borrowed: the handle of a record, or NULL if it is gone. */
static PyObject *handle_of(PyObject *record) {
    PyObject *ref = PyTuple_Check(record) && PyTuple_GET_SIZE(record) ? PyTuple_GET_ITEM(record, 0) : NULL;
    PyObject *handle = ref && PyWeakref_Check(ref) ? ((PyWeakReference *)ref)->wr_object : Py_None;
    return handle == Py_None || Py_REFCNT(handle) == 0 ? NULL : handle; /* that is about to be gone */
}

static int add_to(PyObject *groups, PyObject *handle) {
    PyObject *kind = (PyObject *)Py_TYPE(handle), *members = PyDict_GetItemWithError(groups, kind);
    if (members) return PyList_Append(members, handle);
    if (PyErr_Occurred() || !(members = PyList_New(0))) return -1;
    int failed = PyDict_SetItem(groups, kind, members) < 0 || PyList_Append(members, handle) < 0;
    Py_DECREF(members);
    return failed ? -1 : 0;
}

static int add_address(PyObject *addresses, PyObject *handle) {
    PyObject *number = PyLong_FromVoidPtr(handle);
    int failed = !number || PySet_Add(addresses, number) < 0;
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

/* survivors(births): what lives of these records, by class, in the order of births; and the ids of those that were adopted.
 * Without those that no name leads to, only native code: to end them would free nothing.
 * Each handle is in one list, once, and nothing else here refers to it: whoever asks counts references. */
static PyObject *py_survivors(PyObject *self, PyObject *births) {
    if (!PyList_Check(births)) return PyErr_Format(PyExc_TypeError, "survivors() takes a list of records");
    size_t size = 16;
    while (size < (size_t)PyList_GET_SIZE(births) * 2) size *= 2;
    PyObject **seen = PyMem_Calloc(size, sizeof(PyObject *)), *groups = PyDict_New(), *adopted = PySet_New(NULL);
    int failed = !seen || !groups || !adopted;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(births); i++) {
        PyObject *record = PyList_GET_ITEM(births, i), *handle = handle_of(record);
        if (!handle) continue;
        if (PyTuple_GET_SIZE(record) > 3) {
            if ((failed = add_address(adopted, handle) < 0)) break; /* which starts none */
        } else if (is_natively_held(handle)) {
            continue;
        }
        size_t at = ((size_t)handle >> 4) * 0x9E3779B97F4A7C15ULL >> 20 & (size - 1);
        while (seen[at] && seen[at] != handle) at = (at + 1) & (size - 1);
        if (seen[at]) continue;
        seen[at] = handle;
        Py_INCREF(handle); /* a new list may start a collection */
        failed = add_to(groups, handle) < 0;
        Py_DECREF(handle);
    }
    if (!seen) PyErr_NoMemory();
    PyMem_Free(seen);
    PyObject *both = failed ? NULL : PyTuple_Pack(2, groups, adopted);
    Py_XDECREF(groups);
    Py_XDECREF(adopted);
    return both;
}

static PyMethodDef methods[] = {
    {"setup", py_setup, METH_VARARGS, "setup(var, generators, prefixes, compilers, region class, least)"},
    {"watch", py_watch, METH_VARARGS, "watch(type, users, in_library): report births of this class"},
    {"resume", py_resume, METH_NOARGS, "resume(): report births of all classes so far; False if there are new subclasses of them"},
    {"unwatch", py_unwatch, METH_NOARGS, "unwatch(): give every class its own allocator back"},
    {"settle", py_settle, METH_NOARGS, "settle(): what was born of late is in the births of its region"},
    {"close", py_close, METH_VARARGS, "close(region, spare): the records of what was born in it; it notes no more"},
    {"current", py_current, METH_O, "current(without): the region that owns the running code"},
    {"survivors", py_survivors, METH_O, "survivors(births): what lives of these records, by class, and the ids of the adopted"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_births", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tenure_births(void) {
    s_running = PyUnicode_InternFromString("ag_running");
    if (!s_running) return NULL;
    return PyModule_Create(&module);
}
