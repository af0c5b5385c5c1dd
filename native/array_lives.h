// Lives of objects that hold a buffer, JAX's arrays and TensorFlow's tensors: a life is a weak reference with some
// numbers behind it, found again from the object's own list of weak references; what happens to it becomes rows.
//
// Several objects may share a buffer. The first of them, its root, counts for all, and the buffer ends with the last.
// All of this happens with the GIL.
#pragma once
#include "columns.h"
#include "stacks.h"

#include <time.h>

namespace {

using namespace tenure;

enum Event { kBirth = 1, kUse, kEnd, kStep, kKind };
enum Cause { kLastReference = 1 };

struct Life {
    PyWeakReference base;
    Life *before, *after;            // the lives of objects that are there, in a ring, which holds them
    Life *used_before, *used_after;  // those with uses that are to be told, likewise
    Life *peer_before, *peer_after;  // those of as many bytes, where that is asked for; the first has nobody before
    Life *root;                      // held; null if this is the root
    int64_t bytes, last_use, born;
    uint32_t number, holders, uses, told, last_stack, turn;
    int32_t stack, thread, op, last_op, step, last_step, scope, what, kind;
    bool settled, ended, called;
};

PyTypeObject *LifeType = nullptr;
PyTypeObject *array_type = nullptr;
CaptureStack capture = nullptr;
bool active = false;
int32_t step = 0;
uint32_t first_number = 0, last_number = 0;
Life ring, used;
Rows &rows = *new Rows, &held = *new Rows;
Learnt &learnt = *new Learnt;
std::vector<unsigned long> &threads = *new std::vector<unsigned long>;
thread_local int32_t scope = 0, cause_now = 0, thread = 0;  // as the caller numbers them; 0 is none

PyObject *on_death = nullptr;                                          // the callback of every life
PyObject *trouble = nullptr;                                           // (exception)
PyObject *name_op = nullptr, *named = nullptr;                         // op -> its number; dict of those that are known
PyObject *describe = nullptr;                                          // parts -> (number, bytes)
constexpr size_t kDescribed = 1024;  // that are remembered, and keep what they describe alive

int64_t now() {
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

// What goes wrong here is no business of the user's code; the trace says it.
void complain() {
    if (!PyErr_Occurred()) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *done = trouble && value ? PyObject_CallOneArg(trouble, value) : nullptr;
    Py_XDECREF(done);
    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

// An exception of the user's passes through while something of ours is done.
class Aside {
  public:
    Aside() { PyErr_Fetch(&type_, &value_, &trace_); }
    ~Aside() { PyErr_Restore(type_, value_, trace_); }

  private:
    PyObject *type_, *value_, *trace_;
};

int32_t this_thread() {
    if (!thread) {
        threads.push_back(PyThread_get_thread_ident());
        thread = static_cast<int32_t>(threads.size());
    }
    return thread;
}

void add_row(const Life *life, Event event, int64_t time) {
    rows.time.push_back(time);
    rows.event.push_back(event);
    rows.buffer.push_back(life ? life->number : 0);
    rows.bytes.push_back(life ? life->bytes : 0);
    rows.uses.push_back(life && event != kBirth ? life->uses : 0);
    rows.last_use.push_back(life && life->uses ? life->last_use : 0);
    rows.last_op.push_back(life && life->uses ? life->last_op : 0);
    rows.last_stack.push_back(life && life->uses ? static_cast<int32_t>(life->last_stack) : 0);
    rows.kind.push_back(life ? life->kind : 0);
    rows.step.push_back(event == kUse ? life->last_step : step);
    rows.scope.push_back(event == kUse ? 0 : scope);
    rows.thread.push_back(event == kUse ? 0 : this_thread());
    for (auto *column : {&rows.shape, &rows.device, &rows.op, &rows.stack, &rows.cause}) column->push_back(0);
}

// Borrowed, null if it is gone, or going: an array lets other threads run while its bytes go, and can be met then.
PyObject *array_of(const Life *life) {
    PyObject *array = life->base.wr_object;
    return array != Py_None && Py_REFCNT(array) > 0 ? array : nullptr;
}

Life *root_of(Life *life) { return life->root ? life->root : life; }

void use(Life *root, int32_t op, uint32_t stack, int64_t time) {
    root->uses++;
    root->last_use = time;
    root->last_step = step;
    root->last_op = op;
    root->last_stack = stack;
    if (root->used_after) return;
    Py_INCREF(reinterpret_cast<PyObject *>(root));
    root->used_before = used.used_before;
    root->used_after = &used;
    used.used_before->used_after = root;
    used.used_before = root;
}

// There is nothing more to be told of its uses.
void pass(Life *root) {
    if (!root->used_after) return;
    root->used_before->used_after = root->used_after;
    root->used_after->used_before = root->used_before;
    root->used_before = root->used_after = nullptr;
    Py_DECREF(reinterpret_cast<PyObject *>(root));
}

void tell_birth(Life *life) {
    add_row(life, kBirth, life->born);
    life->settled = true;
    rows.shape.back() = rows.device.back() = life->what;
    rows.stack.back() = life->stack;
    rows.op.back() = life->op;
    rows.thread.back() = life->thread;
    rows.step.back() = life->step;
    rows.scope.back() = life->scope;
}

void end(Life *root, int32_t cause, uint32_t stack) {
    if (root->ended || (!root->settled && !root->what)) return;
    if (!root->settled) tell_birth(root);
    root->ended = true;
    add_row(root, kEnd, now());
    rows.cause.back() = cause_now ? cause_now : cause;
    rows.stack.back() = static_cast<int32_t>(stack);
}

std::unordered_map<int64_t, Life *> &peers = *new std::unordered_map<int64_t, Life *>;  // the first of each number of bytes

void join_peers(Life *life) {
    Life *&first = peers[life->bytes];
    life->peer_after = first;
    if (first) first->peer_before = life;
    first = life;
}

void leave_peers(Life *life) {
    if (life->peer_after) life->peer_after->peer_before = life->peer_before;
    if (life->peer_before) {
        life->peer_before->peer_after = life->peer_after;
    } else if (auto found = peers.find(life->bytes); found != peers.end() && found->second == life) {
        if (life->peer_after) found->second = life->peer_after;
        else peers.erase(found);
    }
    life->peer_before = life->peer_after = nullptr;
}

void unlink(Life *life) {
    if (!life->after) return;
    leave_peers(life);
    life->before->after = life->after;
    life->after->before = life->before;
    life->before = life->after = nullptr;
    Py_CLEAR(life->root);
    Py_DECREF(reinterpret_cast<PyObject *>(life));  // the ring's
}

// A second object has this buffer too; what used it used the buffer.
void share(Life *life, Life *root) {
    Py_INCREF(reinterpret_cast<PyObject *>(root));
    life->root = root;
    life->settled = true;
    root->holders++;
    if (!life->uses) return;
    uint32_t before = root->uses;
    use(root, life->last_op, life->last_stack, life->last_use);
    root->uses = before + life->uses;
    root->last_step = life->last_step;
    pass(life);
}

PyObject *died(PyObject *, PyObject *ref) {
    if (Py_TYPE(ref) == LifeType) {
        auto *life = reinterpret_cast<Life *>(ref);
        Life *root = root_of(life);
        if (--root->holders == 0) {
            if (active && life->number > first_number) end(root, kLastReference, capture(0));
            pass(root);
        }
        unlink(life);
    }
    Py_RETURN_NONE;
}

// Borrowed, null if it has none.
Life *life_of(PyObject *array) {
    auto *ref = *reinterpret_cast<PyWeakReference **>(reinterpret_cast<char *>(array) + Py_TYPE(array)->tp_weaklistoffset);
    for (; ref; ref = ref->wr_next)
        if (Py_TYPE(ref) == LifeType && reinterpret_cast<Life *>(ref)->number > first_number) return reinterpret_cast<Life *>(ref);
    return nullptr;
}

Life *begin(PyObject *array) {
    PyObject *args = PyTuple_Pack(2, array, on_death);
    auto *life = reinterpret_cast<Life *>(args ? LifeType->tp_new(LifeType, args, nullptr) : nullptr);
    Py_XDECREF(args);
    if (!life) return complain(), nullptr;
    life->number = ++last_number;
    life->holders = 1;
    life->born = now();
    life->thread = this_thread();
    life->step = step;
    life->scope = scope;
    life->before = ring.before;
    life->after = &ring;
    ring.before->after = life;
    ring.before = life;
    return life;
}

// The number of a word or a name, which Python gives once; 0 if it does not.
int32_t number_of(PyObject *op) {
    PyObject *known = PyDict_GetItemWithError(named, op);
    if (known) return static_cast<int32_t>(PyLong_AsLong(known));
    PyObject *fresh = PyErr_Occurred() ? nullptr : PyObject_CallOneArg(name_op, op);
    int32_t number = fresh && PyDict_SetItem(named, op, fresh) == 0 ? static_cast<int32_t>(PyLong_AsLong(fresh)) : 0;
    Py_XDECREF(fresh);
    complain();
    return number;
}

struct What {
    int32_t number;  // 0 if it is of no interest; -1 if nobody knows
    int64_t bytes;
    bool several = false;  // it lies on several devices
};

// What Python says of such parts.
What told_of(PyObject *parts) {
    PyObject *told = PyObject_CallObject(describe, parts);
    What what{-1, 0};
    int number, several = 0;
    long long bytes;
    if (told && PyArg_ParseTuple(told, "iL|p", &number, &bytes, &several)) what = {number, bytes, several != 0};
    Py_XDECREF(told);
    complain();
    return what;
}

void settle();                // tell the births that were not complete when they happened
void settle_late(bool last);  // and those that were put off; all of them if this is the last time

void forget() {
    while (used.used_after != &used) pass(used.used_after);
    rows = Rows{};
    learnt.clear();
    first_number = last_number;  // what is older is passed over
    while (ring.after != &ring) unlink(ring.after);
}

// ---------------------------------------------------------------- the Python face of both recorders

PyObject *py_step(PyObject *, PyObject *args) {
    int number, tell;
    if (!PyArg_ParseTuple(args, "ip", &number, &tell)) return nullptr;
    settle();
    if (tell) add_row(nullptr, kStep, now());
    step = number;
    Py_RETURN_NONE;
}

PyObject *py_inside(PyObject *, PyObject *args) {
    int place, cause;
    if (!PyArg_ParseTuple(args, "ii", &place, &cause)) return nullptr;
    if (place >= 0) scope = place;
    if (cause >= 0) cause_now = cause;
    Py_RETURN_NONE;
}

PyObject *py_read(PyObject *, PyObject *) {
    settle();
    settle_late(false);
    for (Life *life = used.used_after, *next; life != &used; life = next) {
        next = life->used_after;
        if (!life->settled) continue;  // its birth comes first
        if (!life->ended && life->uses > life->told) {
            life->told = life->uses;
            add_row(life, kUse, life->last_use);
        }
        pass(life);
    }
    std::swap(held, rows);
    rows.clear();
    return size(held);
}

PyObject *py_learn(PyObject *, PyObject *args) { return learn(learnt, args); }

PyObject *py_columns(PyObject *, PyObject *argument) {
    long long offset = PyLong_AsLongLong(argument);
    if (offset == -1 && PyErr_Occurred()) return nullptr;
    PyObject *made = Columns(held, learnt).made(offset);
    held.clear();
    return made;
}

PyObject *py_threads(PyObject *, PyObject *from) {
    Py_ssize_t at = PyLong_AsSsize_t(from);
    if (at < 0) return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_ValueError, "there is no thread %zd", at);
    PyObject *result = PyList_New(0);
    for (auto i = static_cast<size_t>(at); result && i < threads.size(); i++) {
        PyObject *one = PyLong_FromUnsignedLong(threads[i]);
        if (one) PyList_Append(result, one);
        Py_XDECREF(one);
    }
    return result;
}

// living(): (number, step, stack, object) of all whose buffer is there, each buffer once.
PyObject *py_living(PyObject *, PyObject *) {
    settle();
    PyObject *result = PyList_New(0);
    for (Life *life = ring.after; result && life != &ring; life = life->after) {
        PyObject *array = array_of(life);
        if (!array || life->root || !life->settled || life->ended) continue;
        PyObject *one = Py_BuildValue("(IiiO)", life->number, life->step, life->stack, array);
        if (one) PyList_Append(result, one);
        Py_XDECREF(one);
    }
    return result;
}

PyObject *py_forget(PyObject *, PyObject *) {
    forget();
    Py_RETURN_NONE;
}

#define TENURE_ARRAY_METHODS                                                                                              \
    {"step", py_step, METH_VARARGS, "step(number, tell): what comes belongs to this one; whether its end is told"},       \
    {"inside", py_inside, METH_VARARGS, "inside(scope, cause): of this thread from now on; below zero: as it is"},        \
    {"read", py_read, METH_NOARGS, "read(): hold what happened since; rows, and the largest stack's number"},             \
    {"learn", py_learn, METH_VARARGS, "learn(what, numbers): the stream's numbers of the next words"},                    \
    {"columns", py_columns, METH_O, "columns(offset): what is held"},                                                     \
    {"threads", py_threads, METH_O, "threads(from): the idents of threads from this number on"},                          \
    {"living", py_living, METH_NOARGS, "living(): (number, step, stack, object) of each buffer that is there"},           \
    {"forget", py_forget, METH_NOARGS, "forget(): begin anew, as in a child process"}

void replace(PyObject *&place, PyObject *value) {
    Py_INCREF(value);
    Py_XSETREF(place, value);
}

// What both begin with: the class of the objects, the capsule of stacks, and Python's part.
bool start(PyObject *type, PyObject *capsule, PyObject *describing, PyObject *naming, PyObject *troubled, unsigned int first) {
    auto found = reinterpret_cast<CaptureStack>(PyCapsule_GetPointer(capsule, kCaptureCapsule));
    if (!found) return false;
    capture = found;
    Py_INCREF(type);
    Py_XSETREF(array_type, reinterpret_cast<PyTypeObject *>(type));
    replace(describe, describing);
    replace(name_op, naming);
    replace(trouble, troubled);
    PyDict_Clear(named);
    last_number = std::max(last_number, first);
    step = 0;
    forget();
    active = true;
    return true;
}

bool prepare(const char *name) {
    static PyMethodDef died_method = {"died", died, METH_O, nullptr};
    static PyType_Slot slots[] = {{0, nullptr}};
    static PyType_Spec spec = {name, sizeof(Life), 0, Py_TPFLAGS_DEFAULT, slots};
    ring.before = ring.after = &ring;
    used.used_before = used.used_after = &used;
    named = PyDict_New();
    on_death = PyCFunction_New(&died_method, nullptr);
    PyObject *bases = PyTuple_Pack(1, reinterpret_cast<PyObject *>(&_PyWeakref_RefType));
    LifeType = bases ? reinterpret_cast<PyTypeObject *>(PyType_FromSpecWithBases(&spec, bases)) : nullptr;
    Py_XDECREF(bases);
    return LifeType && on_death && named;
}

}  // namespace
