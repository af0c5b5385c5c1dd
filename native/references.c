/* Counting references: how many of the references to an object come from running frames, and how many from the heap.
 *
 * A handle whose references are all explained may lose its bytes. One that something unseen refers to (an array that
 * reads its memory, an operation that another thread is in) may not.
 */
#include "frames.h"
#include <string.h>

typedef struct {
    PyObject **keys;
    Py_ssize_t *counts;
    size_t mask;
    Py_ssize_t seen; /* references found since it was last set to 0 */
} Table;

static size_t hash(PyObject *object, size_t mask) { return ((size_t)object >> 4) * 0x9E3779B97F4A7C15ULL >> 20 & mask; }

static Py_ssize_t *find(Table *table, PyObject *object) {
    for (size_t at = hash(object, table->mask); table->keys[at]; at = (at + 1) & table->mask)
        if (table->keys[at] == object) return &table->counts[at];
    return NULL;
}

static int open_table(Table *table, PyObject *objects) {
    size_t size = 16;
    while (size < (size_t)PyList_GET_SIZE(objects) * 4) size *= 2;
    table->mask = size - 1;
    table->keys = PyMem_Calloc(size, sizeof(PyObject *));
    table->counts = PyMem_Calloc(size, sizeof(Py_ssize_t));
    if (!table->keys || !table->counts) {
        PyMem_Free(table->keys);
        PyMem_Free(table->counts);
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++) {
        PyObject *object = PyList_GET_ITEM(objects, i);
        size_t at = hash(object, table->mask);
        while (table->keys[at] && table->keys[at] != object) at = (at + 1) & table->mask;
        table->keys[at] = object;
    }
    return 0;
}

static PyObject *close_table(Table *table, PyObject *objects) {
    PyObject *result = PyList_New(PyList_GET_SIZE(objects));
    for (Py_ssize_t i = 0; result && i < PyList_GET_SIZE(objects); i++) {
        PyObject *number = PyLong_FromSsize_t(*find(table, PyList_GET_ITEM(objects, i)));
        if (!number) { Py_CLEAR(result); break; }
        PyList_SET_ITEM(result, i, number);
    }
    PyMem_Free(table->keys);
    PyMem_Free(table->counts);
    return result;
}

/* What a frame refers to: locals and, where the interpreter has noted how far it reaches, the stack.
 * A generator's frame whose reach is noted is shown by its generator, on the heap. */
static void count_frame(_PyInterpreterFrame *frame, Table *table) {
    PyCodeObject *code = frame_code(frame);
    if (!code) return;
    Py_ssize_t top = frame->stacktop;
    if (top >= 0 && frame->owner == FRAME_OWNED_BY_GENERATOR) return;
    if (top < code->co_nlocalsplus) top = code->co_nlocalsplus;
    for (Py_ssize_t i = 0; i < top; i++) {
        PyObject *local = frame->localsplus[i];
        Py_ssize_t *count = local ? find(table, local) : NULL;
        if (count) (*count)++;
    }
    Py_ssize_t *runs = find(table, frame_function(frame));
    if (runs && frame->owner != FRAME_OWNED_BY_GENERATOR) (*runs)++;
}

#define MODULES 64

/* The globals of the modules whose code this thread is in, each once. Where there are very many modules some are missed,
 * and what they name is searched for on the heap. */
static void count_globals(_PyInterpreterFrame *frame, Table *table) {
    PyObject *seen[MODULES];
    int known = 0;
    for (; frame && known < MODULES; frame = frame->previous) {
        PyObject *globals = frame_code(frame) ? frame->f_globals : NULL;
        int at = 0;
        while (at < known && seen[at] != globals) at++;
        if (!globals || at < known) continue;
        seen[known++] = globals;
        PyObject *value;
        for (Py_ssize_t place = 0; PyDict_Next(globals, &place, NULL, &value);) {
            Py_ssize_t *count = find(table, value);
            if (count) (*count)++;
        }
    }
}

/* frame_references(objects, named): for each, references from the running frames of all threads; where `named`, those
 * from globals of the modules whose code this thread is in too. */
static PyObject *frame_references(PyObject *self, PyObject *args) {
    PyObject *objects;
    int named;
    Table table;
    if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &objects, &named) || open_table(&table, objects) < 0) return NULL;
    PyThreadState *mine = PyThreadState_Get();
    for (PyThreadState *state = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(mine)); state;
         state = PyThreadState_Next(state)) {
        for (_PyInterpreterFrame *frame = top_frame(state); frame; frame = frame->previous)
            if (!_PyFrame_IsIncomplete(frame)) count_frame(frame, &table);
    }
    if (named) count_globals(top_frame(mine), &table);
    return close_table(&table, objects);
}

static int visit(PyObject *object, void *table) {
    Py_ssize_t *count = find(table, object);
    if (count) {
        (*count)++;
        ((Table *)table)->seen++;
    }
    return 0;
}

/* An extension's object that refers to a handle may be reading its memory: its reference explains nothing.
 * Classes written in Python and the interpreter's own types have no folder in their names. */
static int is_opaque(PyTypeObject *type, PyObject *known) {
    if (!strchr(type->tp_name, '.')) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(known); i++) {
        const char *prefix = PyUnicode_AsUTF8(PyTuple_GET_ITEM(known, i));
        if (prefix && strncmp(type->tp_name, prefix, strlen(prefix)) == 0) return 0;
    }
    return 1;
}

/* heap_references(objects, heap, known): for each, references from the things in the list `heap`, except `objects` itself.
 * `known` has the prefixes of those extensions' classes whose references explain something. */
static PyObject *heap_references(PyObject *self, PyObject *args) {
    PyObject *objects, *heap, *known;
    Table table;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &objects, &PyList_Type, &heap, &PyTuple_Type, &known)
        || open_table(&table, objects) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(heap); i++) {
        PyObject *thing = PyList_GET_ITEM(heap, i);
        traverseproc traverse = Py_TYPE(thing)->tp_traverse;
        if (traverse && thing != objects && !is_opaque(Py_TYPE(thing), known)) traverse(thing, visit, &table);
    }
    return close_table(&table, objects);
}

/* referrers(objects, heap): the things in the list `heap` that refer to any of `objects`, and for each of these how many
 * such references there are. */
static PyObject *py_referrers(PyObject *self, PyObject *args) {
    PyObject *objects, *heap;
    Table table;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &objects, &PyList_Type, &heap)) return NULL;
    PyObject *found = PyList_New(0);
    if (!found || open_table(&table, objects) < 0) { Py_XDECREF(found); return NULL; }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(heap); i++) {
        PyObject *thing = PyList_GET_ITEM(heap, i);
        traverseproc traverse = Py_TYPE(thing)->tp_traverse;
        if (!traverse || PyModule_CheckExact(thing)) continue; /* see heap.py: asyncio's may have no end */
        table.seen = 0;
        traverse(thing, visit, &table);
        if (table.seen && PyList_Append(found, thing) < 0) { Py_CLEAR(found); break; }
    }
    PyObject *counts = close_table(&table, objects);
    PyObject *both = found && counts ? PyTuple_Pack(2, found, counts) : NULL;
    Py_XDECREF(found);
    Py_XDECREF(counts);
    return both;
}

static int is_being_filled(PyObject *thing) {
    Py_ssize_t size = PyTuple_CheckExact(thing) ? PyTuple_GET_SIZE(thing) : 0;
    return size && !PyTuple_GET_ITEM(thing, size - 1);
}

/* whole(ask, arguments): the list that `ask` gives, without tuples that are still being filled: whoever fills one must be
 * the only one who has it, and another thread could go on with that as soon as Python code runs. A tuple that is full and
 * about to grow cannot be told from others. */
static PyObject *whole(PyObject *self, PyObject *args) {
    PyObject *ask, *arguments;
    if (!PyArg_ParseTuple(args, "OO!", &ask, &PyTuple_Type, &arguments)) return NULL;
    PyObject *found = PyObject_CallObject(ask, arguments);
    if (!found || !PyList_CheckExact(found)) return found;
    Py_ssize_t kept = 0, count = PyList_GET_SIZE(found);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *thing = PyList_GET_ITEM(found, i);
        if (is_being_filled(thing)) continue;
        PyList_SET_ITEM(found, i, PyList_GET_ITEM(found, kept));
        PyList_SET_ITEM(found, kept++, thing);
    }
    if (PyList_SetSlice(found, kept, count, NULL) < 0) Py_CLEAR(found);
    return found;
}

/* instances(ask, kinds): of the list that `ask` gives, the objects of just these classes. Most objects are of others, so the
 * rest of the list goes at once, and no Python object is made for any of them. */
static PyObject *instances(PyObject *self, PyObject *args) {
    PyObject *ask, *kinds;
    Table table = {0};
    if (!PyArg_ParseTuple(args, "OO!", &ask, &PyList_Type, &kinds)) return NULL;
    PyObject *things = PyObject_CallNoArgs(ask), *found = NULL;
    if (things && PyList_CheckExact(things) && open_table(&table, kinds) == 0) {
        found = PyList_New(0);
        for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(things); i++) {
            PyObject *thing = PyList_GET_ITEM(things, i);
            if (find(&table, (PyObject *)Py_TYPE(thing)) && !is_being_filled(thing) && PyList_Append(found, thing) < 0)
                Py_CLEAR(found);
        }
        PyMem_Free(table.keys);
        PyMem_Free(table.counts);
    } else if (things && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "expected a list");
    }
    Py_XDECREF(things);
    return found;
}

static PyMethodDef methods[] = {
    {"instances", instances, METH_VARARGS, "instances(ask, kinds): what `ask` lists of just these classes"},
    {"whole", whole, METH_VARARGS, "whole(ask, arguments): what `ask` lists, but tuples that are still being filled"},
    {"frame_references", frame_references, METH_VARARGS, "references from running frames"},
    {"heap_references", heap_references, METH_VARARGS, "references from the heap"},
    {"referrers", py_referrers, METH_VARARGS, "what refers to these, and how often to each"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tenure_references", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tenure_references(void) { return PyModule_Create(&module); }
