/* Included by births.c: when a scope's cap is compared, and where CapExceeded is raised.
 *
 * A framework's C++ does not expect an exception between an allocation and its return: TensorFlow dereferences a null
 * pointer. So in the main thread a birth only asks the interpreter for a call between two instructions (a pending call),
 * and that compares. The exception waits until the code that made the tensor goes on, for torch, or until user code does,
 * for the others, whose own Python code is called from their C++.
 *
 * Other threads have no pending calls. There torch raises at the thread's next instruction; for the others, the scope
 * raises when it exits. */
int _PyOS_IsMainThread(void); /* exported, but declared in a different header by each version */

#define PATIENCE 200000 /* pending calls, before the exception waits for another birth, or the scope's exit */
static struct {
    PyObject *region; /* held: which is compared next, or whose error waits; or NULL */
    PyObject *error;  /* held: an exception that waits for a safe place, or NULL */
    Py_ssize_t depth; /* frames on the stack at the birth */
    int in_library;   /* whether library code may see it */
    int is_pending;
    int is_comparing; /* what is born meanwhile is not compared */
    int tries;
} full;

static int at_safe_place(void *unused);

static Py_ssize_t stack_depth(void) {
    Py_ssize_t depth = 0;
    for (_PyInterpreterFrame *frame = top_frame(PyThreadState_Get()); frame; frame = frame->previous)
        depth += frame_code(frame) != NULL;
    return depth;
}

/* Whether the C++ code that made the tensor has returned: before, TensorFlow's is only half made. */
static int has_returned(void) { return stack_depth() <= full.depth; }

static int can_raise(void) {
    _PyInterpreterFrame *top = top_frame(PyThreadState_Get());
    while (top && !frame_code(top)) top = top->previous;
    return top && (full.in_library || whose(frame_code(top)) == USERS);
}

static int try_again(void) {
    if (full.tries++ < PATIENCE) full.is_pending = Py_AddPendingCall(at_safe_place, NULL) == 0;
    return 0;
}

/* The code that runs now may be of a task or thread that has nothing to do with the scope. */
static int runs_in(PyObject *region) {
    for (PyObject *one = resolve(NULL); one && one != Py_None; one = slot(one, OUTER))
        if (one == region) return 1;
    return 0;
}

static void forget_full(void) {
    Py_CLEAR(full.error);
    Py_CLEAR(full.region);
}

static PyObject *excess_of(PyObject *region, PyObject *as_class) {
    PyObject *check = slot(region, CHECK);
    if (check == Py_None || has_ended(region)) Py_RETURN_NONE;
    Py_INCREF(check);
    full.is_comparing++;
    PyObject *error = PyObject_CallOneArg(check, as_class);
    full.is_comparing--;
    Py_DECREF(check);
    return error;
}

static int at_safe_place(void *unused) {
    full.is_pending = 0;
    if (!full.region) return 0;
    if (has_ended(full.region)) { forget_full(); return 0; }
    if (!has_returned()) return try_again();
    if (!full.error) {
        PyObject *region = full.region;
        Py_INCREF(region);
        PyObject *error = excess_of(region, Py_False);
        int is_same = full.region == region; /* the comparison may have run anything */
        Py_DECREF(region);
        if (!error) {
            if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1; /* an interrupt */
            PyErr_WriteUnraisable(NULL);
        }
        if (!error || error == Py_None || !is_same) {
            Py_XDECREF(error);
            if (is_same) forget_full();
            return 0;
        }
        full.error = error;
        full.tries = 0;
    }
    if (!runs_in(full.region)) return 0; /* it comes at another birth, or when the scope exits */
    if (!can_raise()) return try_again();
    PyObject *error = full.error;
    full.error = NULL;
    forget_full();
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return -1;
}

/* Before the new object exists. `in_library`: torch, whose answers wait for nothing and whose C++ passes exceptions on. */
static void compare_with_cap(PyObject *region, int in_library) {
    if (full.is_comparing) return;
    if (_PyOS_IsMainThread()) {
        if (full.region && has_ended(full.region)) forget_full();
        if (full.region ? full.region != region : slot(region, CHECK) == Py_None) return;
        if (!full.region) { Py_INCREF(region); full.region = region; }
        Py_ssize_t depth = stack_depth();
        /* Of several births before the call, the outermost one's C++ may be the last to return. */
        full.depth = full.is_pending && full.depth < depth ? full.depth : depth;
        full.in_library = in_library && (!full.is_pending || full.in_library);
        if (full.is_pending) return;
        full.tries = 0;
        full.is_pending = Py_AddPendingCall(at_safe_place, NULL) == 0;
        return;
    }
    if (!in_library || slot(region, CHECK) == Py_None) return;
    PyObject *error = excess_of(region, Py_True);
    if (!error) PyErr_WriteUnraisable(region);
    else if (error != Py_None) PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), error);
    Py_XDECREF(error);
}
