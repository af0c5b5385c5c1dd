/* Included by births.c: whose code is running, the user's, a library's, or a compiler's. */
static PyObject *prefixes = NULL;   /* tuple of folders whose frames are not the user's */
static PyObject *compilers = NULL;  /* tuple of files in which a compiler makes constants of its own */
static PyObject *files = NULL;      /* dict: file name -> True (the user's), False (a library's), None (a compiler's) */

/* The last answers, by code: a birth asks for each frame up to the user's. An answer is in the lowest bits of the code's
 * address, and there are two to a place, so that these and nothing else must be at the processor's hand. */
enum { USERS = 1, LIBRARYS, COMPILERS, ANSWER = 3 };
#define JUDGED 128
static uintptr_t judged[JUDGED][2];
/* Codes that had to make room there: their end may run anything, so it comes at the next birth. */
#define DISMISSED 16
static PyObject *dismissed[DISMISSED];
static int dismissed_count = 0;

static int starts_with_any(const char *name, PyObject *beginnings) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(beginnings); i++) {
        const char *beginning = PyUnicode_AsUTF8(PyTuple_GET_ITEM(beginnings, i));
        if (beginning && strncmp(name, beginning, strlen(beginning)) == 0) return 1;
    }
    return 0;
}

/* Borrowed: whose file this is, see `files`. Unknown files are judged by name once. */
static PyObject *looked_up(PyObject *file) {
    PyObject *known = PyDict_GetItemWithError(files, file);
    if (known) return known;
    PyErr_Clear();
    const char *name = PyUnicode_AsUTF8(file);
    if (!name) { PyErr_Clear(); return Py_True; }
    PyObject *answer = starts_with_any(name, compilers) ? Py_None : starts_with_any(name, prefixes) ? Py_False : Py_True;
    if (PyDict_SetItem(files, file, answer) < 0) PyErr_Clear();
    return answer;
}

static int whose(PyCodeObject *code) {
    uintptr_t key = (uintptr_t)code, *two = judged[(key >> 4) * 0x9E3779B97F4A7C15ULL >> 57];
    if ((two[0] & ~(uintptr_t)ANSWER) == key) return two[0] & ANSWER;
    if ((two[1] & ~(uintptr_t)ANSWER) == key) return two[1] & ANSWER;
    PyObject *owner = looked_up(code->co_filename);
    uintptr_t answer = owner == Py_True ? USERS : owner == Py_False ? LIBRARYS : COMPILERS;
    if (two[1]) {
        if (dismissed_count == DISMISSED) return (int)answer;
        dismissed[dismissed_count++] = (PyObject *)(two[1] & ~(uintptr_t)ANSWER);
    }
    two[1] = two[0];
    two[0] = key | answer;
    Py_INCREF(code); /* so that no other comes to lie there: it stays until others take its place */
    return (int)answer;
}
