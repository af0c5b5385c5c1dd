/* A life is a weak reference to an array with some numbers behind it; what happens to it becomes rows of numbers.
 *
 * Lives stand in a ring, which holds them until their arrays are gone.
 */
#pragma once
#include "frames.h"
#include "stacks.h"
#include <string.h>
#include <time.h>

enum { BIRTH = 1, USE = 2, END = 3 };
enum { LAST_REFERENCE = 1, DELETE = 2, DONATE = 3 };

typedef struct { /* as recording/table.py reads it */
    int64_t time, last_use, bytes, thread, stack;
    uint32_t buffer, uses, last_stack;
    int32_t step, op, last_op, what, event, cause, kind, scope, unused;
} Row;

typedef struct Life {
    PyWeakReference base;
    struct Life *before, *after; /* all lives, in a ring */
    int64_t bytes, last_use, born, thread, stack;
    uint32_t number, uses, told, last_stack, turn;
    int32_t op, last_op, step, scope;
    char settled, ended, called, shared; /* shared: another life has the same number */
} Life;

static PyTypeObject *LifeType = NULL;
static CaptureStack capture = NULL;
static int active = 0;
static int32_t step = 0;
static uint32_t first_number = 0, last_number = 0;
static Life ring;
static Row *rows = NULL;
static Py_ssize_t row_count = 0, row_room = 0;
static Life **waiting = NULL;
static Py_ssize_t waiting_count = 0, waiting_room = 0;
static __thread int32_t scope = 0, cause_now = 0; /* as the caller numbers them; 0 is none */

static int64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static int make_room(void **where, Py_ssize_t count, Py_ssize_t *room, size_t size) {
    if (count < *room) return 1;
    Py_ssize_t wanted = *room ? *room * 2 : 256;
    void *grown = PyMem_RawRealloc(*where, (size_t)wanted * size);
    if (!grown) return 0;
    *where = grown;
    *room = wanted;
    return 1;
}

static Row *add_row(Life *life, int event, int64_t time) {
    if (!make_room((void **)&rows, row_count, &row_room, sizeof(Row))) return NULL;
    Row *row = &rows[row_count++];
    memset(row, 0, sizeof(Row));
    row->event = event;
    row->time = time;
    row->buffer = life->number;
    row->bytes = life->bytes;
    row->uses = life->uses;
    row->last_use = life->last_use;
    row->last_op = life->uses ? life->last_op : -1;
    row->last_stack = life->last_stack;
    row->step = step;
    row->scope = scope;
    row->op = row->what = -1;
    row->thread = (int64_t)PyThread_get_thread_ident();
    return row;
}

/* Borrowed, NULL if it is gone, or going: an array lets other threads run while its bytes go, and can be met then. */
static PyObject *array_of(Life *life) {
    PyObject *array = life->base.wr_object;
    return array != Py_None && Py_REFCNT(array) > 0 ? array : NULL;
}

static void unlink_life(Life *life) {
    if (!life->after) return;
    life->before->after = life->after;
    life->after->before = life->before;
    life->before = life->after = NULL;
    Py_DECREF((PyObject *)life); /* the ring's */
}

/* Another array of the same bytes, or NULL. */
static Life *twin_of(Life *life) {
    for (Life *other = ring.after; life->shared && other != &ring; other = other->after)
        if (other != life && other->number == life->number && !other->ended) return other;
    return NULL;
}

static void end(Life *life, int cause, uint32_t stack) {
    if (life->ended || !life->settled) return;
    life->ended = 1;
    for (Life *twin = twin_of(life); twin; twin = twin_of(life)) {
        if (cause == LAST_REFERENCE) { /* the bytes live on */
            twin->uses += life->uses;
            if (life->last_use > twin->last_use) {
                twin->last_use = life->last_use;
                twin->last_op = life->last_op;
                twin->last_stack = life->last_stack;
            }
            return;
        }
        twin->ended = 1;
    }
    Row *row = add_row(life, END, now());
    if (!row) return;
    row->cause = cause_now ? cause_now : cause;
    row->stack = stack;
}

static PyObject *died(PyObject *self, PyObject *ref) {
    if (Py_TYPE(ref) == LifeType) {
        Life *life = (Life *)ref;
        if (active && life->number > first_number) end(life, LAST_REFERENCE, capture(0));
        unlink_life(life);
    }
    Py_RETURN_NONE;
}

/* Borrowed, NULL if it has none. */
static Life *life_of(PyObject *array) {
    PyWeakReference *ref = *(PyWeakReference **)((char *)array + Py_TYPE(array)->tp_weaklistoffset);
    for (; ref; ref = ref->wr_next)
        if (Py_TYPE(ref) == LifeType && ((Life *)ref)->number > first_number) return (Life *)ref;
    return NULL;
}

static PyObject *on_death = NULL;            /* the callback of every life */
static PyObject *measure = NULL;             /* (aval, sharding) -> bytes */
static PyObject *whats = NULL, *seen = NULL; /* list of (aval, sharding, bytes), dict of their addresses */
static PyObject *s_aval, *s_sharding, *s_pointer;

static Life *begin(PyObject *array) {
    PyObject *args[] = {array, on_death};
    Life *life = (Life *)PyObject_Vectorcall((PyObject *)LifeType, args, 2, NULL);
    if (!life) { PyErr_Clear(); return NULL; }
    if (!make_room((void **)&waiting, waiting_count, &waiting_room, sizeof(Life *))) {
        Py_DECREF((PyObject *)life);
        return NULL;
    }
    life->number = ++last_number;
    life->born = now();
    life->thread = (int64_t)PyThread_get_thread_ident();
    life->step = step;
    life->scope = scope;
    life->op = life->last_op = -1;
    life->before = ring.before;
    life->after = &ring;
    ring.before->after = life;
    ring.before = life; /* the ring has the reference that we were given */
    Py_INCREF((PyObject *)life);
    waiting[waiting_count++] = life;
    return life;
}

/* The number of what this array is; -1 if it is not complete. Adds what was not seen since the last `take`. */
static Py_ssize_t what_is(PyObject *array, int64_t *bytes) {
    Py_ssize_t at = -1;
    PyObject *aval = PyObject_GetAttr(array, s_aval);
    PyObject *sharding = aval ? PyObject_GetAttr(array, s_sharding) : NULL;
    PyObject *key = sharding ? PyLong_FromSize_t(((size_t)aval * 31) ^ (size_t)sharding) : NULL;
    if (key) {
        PyObject *known = PyDict_GetItemWithError(seen, key);
        if (known) {
            at = PyLong_AsSsize_t(known);
        } else if (!PyErr_Occurred()) {
            PyObject *size = PyObject_CallFunctionObjArgs(measure, aval, sharding, NULL);
            PyObject *entry = size ? PyTuple_Pack(3, aval, sharding, size) : NULL;
            PyObject *place = PyLong_FromSsize_t(PyList_GET_SIZE(whats));
            if (entry && place && PyList_Append(whats, entry) == 0 && PyDict_SetItem(seen, key, place) == 0)
                at = PyList_GET_SIZE(whats) - 1;
            Py_XDECREF(size);
            Py_XDECREF(entry);
            Py_XDECREF(place);
        }
        if (at >= 0) *bytes = PyLong_AsLongLong(PyTuple_GET_ITEM(PyList_GET_ITEM(whats, at), 2));
    }
    Py_XDECREF(aval);
    Py_XDECREF(sharding);
    Py_XDECREF(key);
    PyErr_Clear();
    return at;
}

static PyObject *address_of(PyObject *array) {
    PyObject *address = PyObject_CallMethodNoArgs(array, s_pointer);
    if (!address) PyErr_Clear(); /* it lies on several devices, or is gone */
    return address;
}

/* JAX makes a second array of the same bytes to read one on the host, and when it is to be put where it is already.
 * Whether this is one; only those that no compiled call gave are asked. */
static int is_twin(Life *life, PyObject *array) {
    PyObject *mine = life->bytes ? address_of(array) : NULL;
    int found = 0;
    for (Life *other = ring.after; mine && !found && other != &ring; other = other->after) {
        PyObject *candidate = array_of(other);
        if (other == life || !candidate || !other->settled || other->ended || other->bytes != life->bytes) continue;
        Py_INCREF(candidate);
        PyObject *theirs = address_of(candidate);
        if (theirs && PyObject_RichCompareBool(mine, theirs, Py_EQ) == 1) {
            life->number = other->number;
            life->shared = other->shared = life->settled = found = 1;
        }
        Py_XDECREF(theirs);
        Py_INCREF((PyObject *)other); /* if ours is the last reference to the array, its life would leave the ring */
        Py_DECREF(candidate);
        int left = !other->after;
        Py_DECREF((PyObject *)other);
        if (left) break;
    }
    Py_XDECREF(mine);
    return found;
}

/* Tell the births of what is complete by now. */
static void settle(void) {
    Py_ssize_t count = waiting_count, kept = 0;
    if (!count) return;
    Life **taken = waiting;
    waiting = NULL; /* Python code may run below, and arrays be born */
    waiting_count = waiting_room = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Life *life = taken[i];
        PyObject *array = array_of(life);
        if (array && active && life->number > first_number) {
            Py_INCREF(array);
            Py_ssize_t what = what_is(array, &life->bytes);
            if (what < 0) {
                taken[kept++] = life;
                Py_DECREF(array);
                continue;
            }
            Row *row = life->called || !is_twin(life, array) ? add_row(life, BIRTH, life->born) : NULL;
            if (row) {
                life->settled = 1;
                row->what = (int32_t)what;
                row->stack = life->stack;
                row->op = life->op;
                row->thread = life->thread;
                row->step = life->step;
                row->scope = life->scope;
                row->kind = !life->called;
            }
            Py_DECREF(array);
        }
        Py_DECREF((PyObject *)life);
    }
    for (Py_ssize_t i = 0; i < kept; i++) {
        if (make_room((void **)&waiting, waiting_count, &waiting_room, sizeof(Life *))) waiting[waiting_count++] = taken[i];
        else Py_DECREF((PyObject *)taken[i]);
    }
    PyMem_RawFree(taken);
}
