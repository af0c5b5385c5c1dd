/* Included by births.c: what was born of late, and how that becomes a region's records. */
/* Forget the dead when the list has doubled, so a long scope stays as small as what lives in it. Often, so that their
 * records lie in memory that the processor still has at hand. */
static Py_ssize_t least = 0;
static void compact(PyObject *births, PyObject *region) {
    Py_ssize_t kept = 0, count = PyList_GET_SIZE(births);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *record = PyList_GET_ITEM(births, i);
        PyObject *ref = PyTuple_GET_ITEM(record, 0);
        int alive = ((PyWeakReference *)ref)->wr_object != Py_None;
        if (!alive) continue;
        if (kept != i) {
            PyObject *other = PyList_GET_ITEM(births, kept);
            PyList_SET_ITEM(births, kept, record);
            PyList_SET_ITEM(births, i, other);
        }
        kept++;
    }
    PyObject *limit = PyLong_FromSsize_t(kept * 2 > least ? kept * 2 : least);
    if (!limit || PyList_SetSlice(births, kept, count, NULL) < 0 || PyObject_SetAttrString(region, SLOTS[LIMIT], limit) < 0)
        PyErr_Clear();
    Py_XDECREF(limit);
}

/* The offsets of instructions as objects: most births come from the first few thousand of their function. */
#define OFFSETS 4096
static PyObject *numbers[OFFSETS];

static PyObject *number_of(int offset) {
    if (offset < 0 || offset >= OFFSETS) return PyLong_FromLong(offset);
    if (!numbers[offset]) numbers[offset] = PyLong_FromLong(offset);
    Py_XINCREF(numbers[offset]);
    return numbers[offset];
}

/* A `.grad` that somebody has looked at, a tensor saved for backward. */
static int is_natively_held(PyObject *handle) {
    if (Py_REFCNT(handle) != 1) return 0;
    for (Py_ssize_t i = 0; i < watched_count; i++) {
        if (watched[i].type != Py_TYPE(handle)) continue;
        if (watched[i].users == Py_None) return 0;
        Py_INCREF(handle);
        PyObject *count = PyObject_CallOneArg(watched[i].users, handle);
        Py_DECREF(handle);
        int shared = count && PyLong_Check(count) && PyLong_AsLong(count) > 1; /* the handle is one of them */
        Py_XDECREF(count);
        PyErr_Clear();
        return shared;
    }
    return 0;
}

/* The last births, all of one region. Most handles are gone again soon: those have no record of their own, and their weak
 * references wait here for other handles. */
#define LATEST 256
#define MANY 192 /* that live: these are recorded */
static struct {
    PyObject *ref;      /* beyond the last birth: one that died, or NULL */
    PyCodeObject *code; /* or NULL */
    int lasti;
} latest[LATEST];
static int latest_count = 0;
static PyObject *latest_region = NULL; /* held */

static void add_record(PyObject *births, PyObject *ref, PyCodeObject *code, int lasti) {
    PyObject *offset = number_of(lasti);
    PyObject *entry = offset ? PyTuple_Pack(3, ref, code ? (PyObject *)code : Py_None, offset) : NULL;
    if (!entry || PyList_Append(births, entry) < 0) PyErr_Clear();
    Py_XDECREF(entry);
    Py_XDECREF(offset);
}

/* Forget those that are gone, and, if `spare`, those that a scope leaves alone at its end. */
static void forget_latest(int spare) {
    PyCodeObject *codes[LATEST]; /* what the end of a code may run comes after */
    int kept = 0, gone = 0;
    for (int i = 0; i < latest_count; i++) {
        PyObject *handle = ((PyWeakReference *)latest[i].ref)->wr_object;
        if (handle == Py_None || (spare && is_natively_held(handle))) {
            codes[gone++] = latest[i].code;
            continue;
        }
        __typeof__(latest[0]) one = latest[i];
        latest[i].ref = latest[kept].ref;
        latest[kept++] = one;
    }
    latest_count = kept;
    while (gone) Py_XDECREF(codes[--gone]);
}

/* Make records of those that live. Here a collection may run, and more may be born: those come after. */
static void note_latest(int spare) {
    PyObject *region = latest_region;
    if (!region) return;
    forget_latest(spare);
    if (latest_region != region) return; /* what that ran has noted them */
    int count = latest_count;
    __typeof__(latest[0]) mine[LATEST];
    memcpy(mine, latest, sizeof(mine[0]) * (size_t)count);
    for (int i = 0; i < count; i++) latest[i].ref = NULL;
    latest_count = 0;
    latest_region = NULL;
    for (int i = 0; i < count; i++) {
        PyObject *births = slot(region, BIRTHS);
        if (PyList_CheckExact(births)) {
            Py_INCREF(births);
            add_record(births, mine[i].ref, mine[i].code, mine[i].lasti);
            PyObject *limit = slot(region, LIMIT);
            if (PyLong_Check(limit) && PyList_GET_SIZE(births) > PyLong_AsSsize_t(limit)) compact(births, region);
            Py_DECREF(births);
        }
        Py_DECREF(mine[i].ref);
        Py_XDECREF(mine[i].code);
    }
    Py_DECREF(region);
    PyErr_Clear();
}

/* A weak reference to a new handle: `waiting`, whose own handle is gone, or a new one. Steals `waiting`.
 * To make one costs several times what the rest of a birth does: the collector has it in a list with others that the
 * processor does not have at hand. It needs to know none of these, which refer to nothing. */
static PyObject *weak_reference(PyObject *waiting, PyObject *handle) {
#ifndef Py_GIL_DISABLED
    PyWeakReference *old = (PyWeakReference *)waiting;
    if (old && Py_REFCNT(old) == 1 && old->wr_object == Py_None) { /* nobody else has it: it may become another's */
        PyWeakReference **references = (PyWeakReference **)PyObject_GET_WEAKREFS_LISTPTR(handle);
        if (!*references) {
            old->wr_object = handle;
            old->hash = -1;
            *references = old;
            return waiting;
        }
    }
#endif
    PyObject *ref = PyWeakref_NewRef(handle, NULL);
    if (ref) PyObject_GC_UnTrack(ref);
    Py_XDECREF(waiting);
    return ref;
}

static void record(PyObject *region, PyObject *handle) {
    PyCodeObject *code = NULL;
    int lasti = -1;
    for (_PyInterpreterFrame *frame = top_frame(PyThreadState_Get()); frame; frame = frame->previous) {
        PyCodeObject *candidate = frame_code(frame);
        int owner = candidate ? whose(candidate) : LIBRARYS;
        if (owner == COMPILERS) return; /* a constant of a compiled function lives in the compiler's cache */
        if (owner == LIBRARYS) continue;
        code = candidate;
        lasti = _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT);
        break;
    }
    int has_room = latest_region == region && latest_count < LATEST;
    PyObject *waiting = has_room ? latest[latest_count].ref : NULL, *births = slot(region, BIRTHS);
    PyObject *ref = weak_reference(waiting, handle);
    if (has_room) latest[latest_count].ref = ref;
    if (!ref) { PyErr_Clear(); return; }
    if (has_room) {
        Py_XINCREF(code);
        latest[latest_count].code = code;
        latest[latest_count++].lasti = lasti;
        return;
    }
    if (PyList_CheckExact(births)) add_record(births, ref, code, lasti); /* the allocator made room for none */
    Py_DECREF(ref);
}

/* Room for one more birth of this region; before there is a new object. */
static void make_room(PyObject *region) {
    while (dismissed_count) Py_DECREF(dismissed[--dismissed_count]);
    if (latest_region == region && latest_count < LATEST) return;
    if (latest_region == region) forget_latest(0);
    /* What runs meanwhile may be born in another. */
    while (latest_region && (latest_region != region || latest_count > MANY)) note_latest(0);
    if (!latest_region) { Py_INCREF(region); latest_region = region; }
}
