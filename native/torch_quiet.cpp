// Which operations torch tells its observers of. Each one told costs about half a microsecond, also for an observer that
// does nothing; two of three are plumbing inside others, or views, which read no data. torch has a list of operations
// that are never told, fixed when it is loaded; here operations are put on it and taken off again.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/dispatch/ObservedOperators.h>

#include <cstring>

namespace {

// The two members are private; an explicit instantiation may name them.
template <class Tag, auto Member>
struct Reveal {
    friend constexpr auto reveal(Tag) { return Member; }
};
struct Definition { friend constexpr auto reveal(Definition); };
struct Observed { friend constexpr auto reveal(Observed); };
template struct Reveal<Definition, &c10::OperatorHandle::operatorDef_>;
template struct Reveal<Observed, &c10::impl::OperatorEntry::is_observed_>;

const bool &observed_in(const c10::OperatorHandle &handle) { return (handle.*reveal(Definition{}))->op.*reveal(Observed{}); }

// Whether what is found so is what torch itself says of each operation, in a function of its own that is not compiled in
// here: then the member is where it is thought to be, and nobody else changes it. Asked once, before the first change.
bool is_as_expected() {
    static const bool known = [] {
        bool both[2] = {false, false};
        for (const auto &name : c10::Dispatcher::singleton().getAllOpNames()) {
            auto handle = c10::Dispatcher::singleton().findOp(name);
            if (!handle) continue;
            unsigned char byte;
            std::memcpy(&byte, &observed_in(*handle), 1);
            if (byte != static_cast<unsigned char>(c10::ObservedOperators::isObserved(name))) return false;
            both[byte] = true;
        }
        return both[0] && both[1];
    }();
    return known;
}

// tell(names, on): whether observers are told of these; how many were changed, or -1 where nothing can be.
PyObject *py_tell(PyObject *, PyObject *args) {
    PyObject *wanted;
    int on;
    if (!PyArg_ParseTuple(args, "O!p", &PyFrozenSet_Type, &wanted, &on)) return nullptr;
    if (!is_as_expected()) return PyLong_FromLong(-1);
    long changed = 0;
    for (const auto &name : c10::Dispatcher::singleton().getAllOpNames()) {
        PyObject *text = PyUnicode_FromString(name.name.c_str());
        int asked = text ? PySet_Contains(wanted, text) : -1;
        Py_XDECREF(text);
        if (asked < 0) return nullptr;
        auto handle = asked ? c10::Dispatcher::singleton().findOp(name) : std::nullopt;
        if (!handle) continue;
        const bool &observed = observed_in(*handle);
        if (observed == static_cast<bool>(on)) continue;
        // Other threads read it meanwhile: whole, and by a store that the compiler takes for one to any byte.
        __atomic_store_n(reinterpret_cast<unsigned char *>(const_cast<bool *>(&observed)), static_cast<unsigned char>(on), __ATOMIC_RELAXED);
        changed++;
    }
    return PyLong_FromLong(changed);
}

PyMethodDef methods[] = {
    {"tell", py_tell, METH_VARARGS, "tell(names, on): whether observers are told of these operations"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_torch_quiet", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_tenure_torch_quiet() { return PyModule_Create(&module); }
