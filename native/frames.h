/* The running Python code of this thread, as the interpreter itself keeps it: no frame objects are made. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#ifdef __cplusplus
extern "C" {
#endif
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#ifdef __cplusplus
}
#endif

static inline _PyInterpreterFrame *top_frame(PyThreadState *tstate) {
#if PY_VERSION_HEX >= 0x030D0000
    return tstate->current_frame;
#else
    return tstate->cframe ? tstate->cframe->current_frame : NULL;
#endif
}

/* NULL for a frame of the interpreter's own, which runs no code of anybody's. */
static inline PyCodeObject *frame_code(_PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *code = frame->f_executable;
    return code && PyCode_Check(code) ? (PyCodeObject *)code : NULL;
#elif PY_VERSION_HEX >= 0x030C0000
    return frame->owner == FRAME_OWNED_BY_CSTACK ? NULL : frame->f_code;
#else
    return frame->f_code;
#endif
}

/* Borrowed: the function that runs in a frame with code. */
static inline PyObject *frame_function(_PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030C0000
    return frame->f_funcobj;
#else
    return (PyObject *)frame->f_func;
#endif
}
