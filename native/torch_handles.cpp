// The one thing that Python cannot do to a torch handle: make every data access below Python fail with our text.
//
// `empty(tensor._cdata, text, was_used)` drops this handle's reference to its storage. Shape, dtype, device and strides stay; whatever
// then asks for the data from C++ (an extension, a kernel called past the dispatcher) gets a c10::Error with `text`
// instead of a null pointer. The caller has made sure that no native code shares the handle's TensorImpl.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <c10/core/TensorImpl.h>

static PyObject *empty(PyObject *, PyObject *args) {
    unsigned long long address = 0;
    const char *text = nullptr;
    int was_used = 0;
    if (!PyArg_ParseTuple(args, "Ksp", &address, &text, &was_used)) return nullptr;
    try {
        auto *impl = reinterpret_cast<c10::TensorImpl *>(static_cast<uintptr_t>(address));
        impl->release_storage_and_set_meta_custom_data_ptr_error_msg_(std::string(text));
        if (was_used) { /* a handle of the user's, with a graph behind it */
            impl->set_autograd_meta(nullptr);
            impl->set_python_dispatch(true);
        }
    } catch (const std::exception &error) {
        return PyErr_Format(PyExc_RuntimeError, "%s", error.what());
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"empty", empty, METH_VARARGS, "empty(address of a TensorImpl, text, was_used): drop this handle's storage; data access raises text"},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_torch_handles", nullptr, -1, methods,
                             nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_tenure_torch_handles() { return PyModule_Create(&module); }
