// Rows on their way into a stream: whole columns, with the stream's own numbers for words. Python tells each number
// once, and is kept waiting for as little as can be: the columns are filled while it goes on.
#pragma once
#include "frames.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenure {

struct Rows {  // one vector a column
    std::vector<int64_t> time, bytes, last_use;
    std::vector<int32_t> event, device, shape, op, stack, thread, step, scope, kind, cause, last_op, last_stack;
    std::vector<uint32_t> buffer, uses;

    void clear() {  // and keep the room, if it is not of a flood
        if (time.capacity() > kMuch) {
            *this = Rows{};
            return;
        }
        for (auto *column : {&time, &bytes, &last_use}) column->clear();
        for (auto *column : {&event, &device, &shape, &op, &stack, &thread, &step, &scope, &kind, &cause, &last_op, &last_stack}) column->clear();
        for (auto *column : {&buffer, &uses}) column->clear();
    }
    static constexpr size_t kMuch = 1 << 16;
};

// For each kind of word the stream's numbers by ours (-1: none). Stacks below zero are told by "old stack", "old site".
using Learnt = std::unordered_map<std::string, std::vector<int32_t>>;

template <class T>
PyObject *column(const std::vector<T> &values) {
    return PyBytes_FromStringAndSize(reinterpret_cast<const char *>(values.data()), static_cast<Py_ssize_t>(values.size() * sizeof(T)));
}

// learn(what, numbers): the stream's numbers of the words that follow those learnt before.
inline PyObject *learn(Learnt &learnt, PyObject *args) {
    const char *what;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "sO!", &what, &PyList_Type, &list)) return nullptr;
    auto &known = learnt[what];
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) known.push_back(static_cast<int32_t>(PyLong_AsLong(PyList_GET_ITEM(list, i))));
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

// (how many rows, the largest number of a stack in them)
inline PyObject *size(const Rows &rows) {
    int32_t stack = 0;
    for (const auto *values : {&rows.stack, &rows.last_stack})
        for (int32_t one : *values) stack = std::max(stack, one);
    return Py_BuildValue("(ni)", static_cast<Py_ssize_t>(rows.time.size()), stack);
}

class Columns {
  public:
    Columns(const Rows &rows, Learnt &learnt) : rows_(rows), learnt_(learnt), count_(rows.time.size()) {}

    // A dict of pairs of bytes (values, bits that say which are there); `offset` makes the clock's times of day.
    PyObject *made(long long offset) {
        result_ = PyDict_New();
        moments("time", rows_.time, offset);
        moments("last_use", rows_.last_use, offset);
        numbers("bytes", rows_.bytes);
        numbers("buffer", rows_.buffer);
        numbers("uses", rows_.uses);
        fill<int32_t>("step", false, [this](int32_t *told, uint8_t *) { std::copy(rows_.step.begin(), rows_.step.end(), told); });
        words("event", rows_.event, "event");
        words("device", rows_.device, "device");
        words("shape", rows_.shape, "shape");
        words("dtype", rows_.shape, "dtype");
        words("op", rows_.op, "op");
        words("last_op", rows_.last_op, "op");
        words("thread", rows_.thread, "thread");
        words("scope", rows_.scope, "scope");
        words("kind", rows_.kind, "kind");
        words("cause", rows_.cause, "cause");
        words("stack", rows_.stack, "stack");
        words("last_stack", rows_.last_stack, "stack");
        words("site", rows_.stack, "site");
        words("last_site", rows_.last_stack, "site");
        Py_BEGIN_ALLOW_THREADS
        for (auto &one : work_) one();
        Py_END_ALLOW_THREADS
        if (PyErr_Occurred()) Py_CLEAR(result_);
        return result_;
    }

  private:
    template <class T, class Fill>
    void fill(const char *name, bool some, Fill with) {
        PyObject *values = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count_ * sizeof(T)));
        PyObject *bits = some ? PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>((count_ + 7) / 8)) : Py_NewRef(Py_None);
        if (values && bits && result_) {
            auto *told = reinterpret_cast<T *>(PyBytes_AS_STRING(values));
            auto *there = some ? reinterpret_cast<uint8_t *>(PyBytes_AS_STRING(bits)) : nullptr;
            if (some) std::memset(there, 0, (count_ + 7) / 8);
            work_.push_back([=] { with(told, there); });
            PyObject *pair = PyTuple_Pack(2, values, bits);
            if (pair) PyDict_SetItemString(result_, name, pair);
            Py_XDECREF(pair);
        }
        Py_XDECREF(values);
        Py_XDECREF(bits);
    }
    static void mark(uint8_t *there, size_t i) { there[i / 8] |= static_cast<uint8_t>(1 << i % 8); }

    void words(const char *name, const std::vector<int32_t> &values, const char *what) {
        const auto &known = learnt_[what], &old = learnt_[std::string("old ") + what];
        fill<int32_t>(name, true, [&values, &known, &old](int32_t *told, uint8_t *there) {
            const int32_t *table = known.data();
            const auto length = static_cast<uint32_t>(known.size()), before = static_cast<uint32_t>(old.size());
            for (size_t row = 0; row < values.size(); row += 8) {
                uint32_t bits = 0;
                for (size_t i = row; i < std::min(row + 8, values.size()); i++) {
                    auto at = static_cast<uint32_t>(values[i]);
                    int32_t number = at < length ? table[at] : ~at < before ? old[~at] : -1;  // ~at: -1 is 0, -2 is 1
                    told[i] = std::max(number, 0);
                    bits |= static_cast<uint32_t>(number >= 0) << (i - row);
                }
                there[row / 8] = static_cast<uint8_t>(bits);
            }
        });
    }
    // Moments in microseconds since 1970; 0 is none.
    void moments(const char *name, const std::vector<int64_t> &values, long long offset) {
        fill<int64_t>(name, true, [&values, offset](int64_t *told, uint8_t *there) {
            for (size_t i = 0; i < values.size(); i++) {
                told[i] = (values[i] + offset) / 1000;
                if (values[i]) mark(there, i);
            }
        });
    }
    // The end of a step is no buffer's.
    template <class T>
    void numbers(const char *name, const std::vector<T> &values) {
        fill<T>(name, true, [this, &values](T *told, uint8_t *there) {
            for (size_t i = 0; i < values.size(); i++) {
                told[i] = values[i];
                if (rows_.buffer[i]) mark(there, i);
            }
        });
    }

    const Rows &rows_;
    Learnt &learnt_;
    size_t count_;
    PyObject *result_ = nullptr;
    std::vector<std::function<void()>> work_;
};

}  // namespace tenure
