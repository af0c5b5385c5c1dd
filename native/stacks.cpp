// Python stacks by number: capturing one is a walk over the interpreter's own frames and a look into a table.
//
// A stack is known by a hash of its (code, instruction) pairs. Code objects in the table are kept for good, so that an
// address never means another function. Lines and names are worked out by whoever reads, once for each stack.
#include "forks.h"
#include "frames.h"
#include "stacks.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

struct Entry {
    PyCodeObject *code;
    int lasti;
};

int deepest = 0;  // frames of a stack, as stacks.py says
size_t most = 0;  // stacks

std::mutex guard;
std::unordered_map<uint64_t, uint32_t> numbers;
std::vector<std::vector<Entry>> stacks(1);  // number 0 is no stack
std::unordered_set<PyCodeObject *> kept;
std::atomic<uint64_t> keeps{1};  // changes when one is added

struct Known {
    uint64_t hash;
    uint32_t number;
};
unsigned long main_thread = 0;
thread_local Known *known __attribute__((tls_model("initial-exec"))) = nullptr;  // 1024, made when first needed, kept

// Addresses have 47 bits: the instruction goes above them.
inline uint64_t mix(uint64_t hash, PyCodeObject *code, int lasti) {
    hash = (hash ^ (reinterpret_cast<uint64_t>(code) + (static_cast<uint64_t>(lasti) << 45))) * 0x9E3779B97F4A7C15ULL;
    return hash ^ (hash >> 32);
}

inline int instruction(_PyInterpreterFrame *frame) { return _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT); }

uint64_t walk(PyThreadState *tstate, std::vector<Entry> *into) {
    uint64_t hash = 1;
    int depth = 0;
    for (_PyInterpreterFrame *frame = top_frame(tstate); frame && depth < deepest; frame = frame->previous) {
        PyCodeObject *code = frame_code(frame);
        if (!code) continue;
        int lasti = instruction(frame);
        if (lasti < 0) continue;  // not yet begun
        hash = mix(hash, code, lasti);
        if (into) into->push_back({code, lasti});
        depth++;
    }
    return depth ? hash : 0;
}

// Under `guard`, with the GIL.
void keep(PyCodeObject *code) {
    if (!kept.insert(code).second) return;
    Py_INCREF(reinterpret_cast<PyObject *>(code));
    keeps.fetch_add(1, std::memory_order_relaxed);
}

struct Inserted {
    uint32_t number;
    bool whole;
};

// Without the GIL, as torch frees tensors, no reference can be taken: then functions that are not kept are left out, such
// as one of torch's that has never called anything, and the line of the user's that called it remains.
Inserted insert(PyThreadState *tstate, uint64_t hash, bool has_gil) {
    std::vector<Entry> entries;
    walk(tstate, &entries);
    std::lock_guard<std::mutex> lock(guard);
    bool whole = true;
    if (has_gil) {
        for (auto &entry : entries) keep(entry.code);
    } else {
        auto unknown = [](const Entry &entry) { return !kept.count(entry.code); };
        auto end = std::remove_if(entries.begin(), entries.end(), unknown);
        whole = end == entries.end();
        entries.erase(end, entries.end());
        if (entries.empty()) return {0, false};
        if (!whole) {
            hash = 1;
            for (auto &entry : entries) hash = mix(hash, entry.code, entry.lasti);
        }
    }
    auto found = numbers.find(hash);
    if (found != numbers.end()) return {found->second, whole};
    if (stacks.size() > most) return {0, whole};
    uint32_t number = static_cast<uint32_t>(stacks.size());
    numbers.emplace(hash, number);
    stacks.push_back(std::move(entries));
    return {number, whole};
}

// In the main thread, soon after a stack of it was left incomplete: the same functions are mostly still running.
int get_to_know(void *) {
    std::vector<Entry> entries;
    walk(PyThreadState_Get(), &entries);
    std::lock_guard<std::mutex> lock(guard);
    for (auto &entry : entries) keep(entry.code);
    return 0;
}

// Whom to call after so many stacks, in the main thread, between two instructions of its program.
std::atomic<int64_t> left{INT64_MAX};
PyObject *called = nullptr;

// Inside of a compiled function torch.compile stands in the evaluation of frames, and would compile ours: not these.
int call(void *) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction theirs = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    bool stands_in = theirs != _PyEval_EvalFrameDefault;
    if (stands_in) _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
    PyObject *done = called ? PyObject_CallNoArgs(called) : nullptr;
    if (called && !done) PyErr_WriteUnraisable(called);
    Py_XDECREF(done);
    if (stands_in && _PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, theirs);
    return 0;
}

// Not one atomic operation but two: that is cheaper, and a count that two threads make as one does not matter.
inline void count() {
    int64_t now = left.load(std::memory_order_relaxed) - 1;
    left.store(now, std::memory_order_relaxed);
    if (now <= 0) left.store(Py_AddPendingCall(call, nullptr) < 0 ? 64 : INT64_MAX);
}

// The number of this thread's stack; 0 if it runs no Python. Without the GIL only stacks of known functions are found,
// unless `wait`: then the GIL is taken to add a new one. Never wait where locks are held. Who knows where it is only counts.
uint32_t capture(int wait) {
    if (wait == kOnlyCount) return count(), 0;
    PyThreadState *tstate = PyGILState_GetThisThreadState();
    if (!tstate) return 0;
    uint64_t hash = walk(tstate, nullptr);
    if (!hash) return 0;
    count();
    if (!known) known = new Known[1024]();
    Known &memo = known[hash & 1023];
    if (memo.hash == hash) return memo.number;
    bool has_gil = PyGILState_Check();
    uint64_t parts = hash ^ (keeps.load(std::memory_order_relaxed) * 0x9E3779B97F4A7C15ULL);  // what is known of it now
    Known &partial = known[parts & 1023];
    if (partial.hash == parts && !has_gil && !wait) return partial.number;
    {
        std::lock_guard<std::mutex> lock(guard);
        auto found = numbers.find(hash);
        if (found != numbers.end()) return memo = {hash, found->second}, memo.number;
    }
    if (!has_gil && wait) {
        PyGILState_STATE state = PyGILState_Ensure();
        Inserted found = insert(tstate, hash, true);
        PyGILState_Release(state);
        return memo = {hash, found.number}, found.number;
    }
    Inserted found = insert(tstate, hash, has_gil);
    (found.whole ? memo : partial) = {found.whole ? hash : parts, found.number};
    if (!found.whole && PyThread_get_thread_ident() == main_thread) Py_AddPendingCall(get_to_know, nullptr);
    return found.number;
}

PyObject *py_capture(PyObject *, PyObject *) { return PyLong_FromUnsignedLong(capture(0)); }

// chain(number): its (code, instruction) pairs, innermost first.
PyObject *py_chain(PyObject *, PyObject *argument) {
    size_t number = PyLong_AsSize_t(argument);
    if (PyErr_Occurred()) return nullptr;
    std::vector<Entry> entries;
    {
        std::lock_guard<std::mutex> lock(guard);
        if (number < stacks.size()) entries = stacks[number];
    }
    PyObject *result = PyTuple_New(static_cast<Py_ssize_t>(entries.size()));
    for (size_t i = 0; result && i < entries.size(); i++) {
        PyObject *pair = Py_BuildValue("(Oi)", entries[i].code, entries[i].lasti);
        if (!pair) Py_CLEAR(result);
        else PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(i), pair);
    }
    return result;
}

// after(count, function): call it after so many stacks; None for nobody.
PyObject *py_after(PyObject *, PyObject *args) {
    long long many;
    PyObject *function;
    if (!PyArg_ParseTuple(args, "LO", &many, &function)) return nullptr;
    Py_XSETREF(called, function == Py_None ? nullptr : Py_NewRef(function));
    left.store(called ? many : INT64_MAX);
    Py_RETURN_NONE;
}

// overdue(): how many stacks were taken since the call was due. From then on the count goes down from the largest number.
PyObject *py_overdue(PyObject *, PyObject *) {
    int64_t now = left.load(std::memory_order_relaxed);
    return PyLong_FromLongLong(called && now > INT64_MAX / 2 ? INT64_MAX - now : 0);
}

// limit(deepest, most): how many frames a stack has, and how many stacks are kept. Said before the first is taken.
PyObject *py_limit(PyObject *, PyObject *args) {
    int frames;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "in", &frames, &count)) return nullptr;
    deepest = frames, most = static_cast<size_t>(count);
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"limit", py_limit, METH_VARARGS, "limit(deepest, most): frames of a stack, and stacks"},
    {"overdue", py_overdue, METH_NOARGS, "overdue(): how many stacks were taken since the call was due"},
    {"after", py_after, METH_VARARGS, "after(count, function): call it after so many stacks were taken"},
    {"capture", py_capture, METH_NOARGS, "the number of the running stack"},
    {"chain", py_chain, METH_O, "chain(number): (code, instruction) pairs, innermost first"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_stacks", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_tenure_stacks() {
    hold_at_fork({&guard});
    PyObject *made = PyModule_Create(&module);
    if (PyObject *threading = PyImport_ImportModule("threading")) {
        PyObject *main = PyObject_CallMethod(threading, "main_thread", nullptr);
        PyObject *ident = main ? PyObject_GetAttrString(main, "ident") : nullptr;
        main_thread = ident ? PyLong_AsUnsignedLong(ident) : 0;
        Py_XDECREF(ident);
        Py_XDECREF(main);
        Py_DECREF(threading);
    }
    if (PyErr_Occurred()) return nullptr;
    static CaptureStack shared = capture;
    PyObject *capsule = PyCapsule_New(reinterpret_cast<void *>(shared), kCaptureCapsule, nullptr);
    if (!made || !capsule || PyModule_AddObject(made, "_capture", capsule) < 0) return nullptr;
    return made;
}
