// The Python face of the scan: included by trace_scan.cpp, inside its namespace. No logic here.

constexpr const char *kCapsule = "tenure.scan";

Scan *scan_of(PyObject *capsule) { return static_cast<Scan *>(PyCapsule_GetPointer(capsule, kCapsule)); }

// The arguments (scan, number) of most functions here; nullptr and an error if they are not that.
Scan *scan_and(PyObject *args, int *number) {
    PyObject *capsule;
    return PyArg_ParseTuple(args, "Oi", &capsule, number) ? scan_of(capsule) : nullptr;
}

Scan *scan_and(PyObject *args, unsigned int *number) {
    PyObject *capsule;
    return PyArg_ParseTuple(args, "OI", &capsule, number) ? scan_of(capsule) : nullptr;
}

PyObject *capsule_of(Scan *scan) {
    return PyCapsule_New(scan, kCapsule, [](PyObject *self) { delete scan_of(self); });
}

// scan(bins, until, several): a new one; `until` below 0 for all of time, `several` for a curve of each process too.
PyObject *py_scan(PyObject *, PyObject *args) {
    Py_ssize_t bins;
    long long until;
    int several;
    if (!PyArg_ParseTuple(args, "nLp", &bins, &until, &several)) return nullptr;
    return capsule_of(new Scan(static_cast<size_t>(bins), until < 0 ? kNever : until, several && until < 0));
}

// As the Arrow C data interface has it.
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    ArrowArray **children;
    ArrowArray *dictionary;
    void (*release)(ArrowArray *);
    void *private_data;
};

template <class T>
Column<T> column(const ArrowArray *batch, PyObject *places, int which) {
    long at = PyLong_AsLong(PyTuple_GET_ITEM(places, which));
    if (at < 0 || at >= batch->n_children) return {};
    const ArrowArray *child = batch->children[at];
    if (child->n_buffers != 2 || child->offset % 8) {  // never so in what was read from a file
        PyErr_SetString(PyExc_ValueError, "a column that begins within a byte");
        return {};
    }
    auto *there = static_cast<const uint8_t *>(child->buffers[0]);
    return {static_cast<const T *>(child->buffers[1]) + child->offset, child->null_count == 0 || !there ? nullptr : there + child->offset / 8};
}

// feed(scan, process, number, batch, places, maps): the latest time. `places` are those of the columns in the batch.
PyObject *py_feed(PyObject *, PyObject *args) {
    PyObject *capsule, *whole, *places, *maps;
    unsigned int process, number;
    if (!PyArg_ParseTuple(args, "OIIOO!O!", &capsule, &process, &number, &whole, &PyTuple_Type, &places, &PyTuple_Type, &maps)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    if (PyTuple_GET_SIZE(places) != 10 || PyTuple_GET_SIZE(maps) != 5) return PyErr_Format(PyExc_TypeError, "ten columns and five maps are needed");
    PyObject *pair = PyObject_CallMethod(whole, "__arrow_c_array__", nullptr);
    if (!pair) return nullptr;
    auto *array = static_cast<const ArrowArray *>(PyCapsule_GetPointer(PyTuple_GET_ITEM(pair, 1), "arrow_array"));
    Batch batch{};
    Py_buffer views[5];
    int taken = 0;
    for (; array && taken < 5; taken++)
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(maps, taken), &views[taken], PyBUF_SIMPLE) < 0) break;
    int64_t high = 0;
    if (array && taken == 5) {
        batch.process = process, batch.number = number, batch.rows = static_cast<size_t>(array->length);
        batch.time = column<int64_t>(array, places, 0), batch.event = column<int32_t>(array, places, 1);
        batch.buffer = column<uint32_t>(array, places, 2), batch.bytes = column<int64_t>(array, places, 3);
        batch.device = column<int32_t>(array, places, 4), batch.site = column<int32_t>(array, places, 5);
        batch.kind = column<int32_t>(array, places, 6), batch.last_use = column<int64_t>(array, places, 7);
        batch.step = column<int32_t>(array, places, 8), batch.scope = column<int32_t>(array, places, 9);
        Map *known[] = {&batch.events, &batch.devices, &batch.sites, &batch.kinds, &batch.scopes};
        for (int i = 0; i < 5; i++) *known[i] = {static_cast<const int32_t *>(views[i].buf), static_cast<size_t>(views[i].len) / sizeof(int32_t)};
        if (!PyErr_Occurred()) {
            Py_BEGIN_ALLOW_THREADS
            high = scan->feed(batch);
            Py_END_ALLOW_THREADS
        }
    }
    while (taken) PyBuffer_Release(&views[--taken]);
    Py_DECREF(pair);
    if (PyErr_Occurred()) return nullptr;
    if (scan->wrong) return PyErr_Format(PyExc_ValueError, "%s", scan->wrong);
    return PyLong_FromLongLong(high);
}

// settle(scan, process, own, until): nothing earlier than these comes any more, of that process and of all.
PyObject *py_settle(PyObject *, PyObject *args) {
    PyObject *capsule;
    unsigned int process;
    long long own, until;
    if (!PyArg_ParseTuple(args, "OILL", &capsule, &process, &own, &until)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    Py_BEGIN_ALLOW_THREADS
    scan->settle(process, own, until);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *py_finish(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    Py_BEGIN_ALLOW_THREADS
    scan->finish();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

template <class All, class Get>
PyObject *told(const All &all, Get get) {
    using T = decltype(get(*all.begin()));
    PyObject *bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(all.size() * sizeof(T)));
    if (!bytes) return nullptr;
    auto *to = reinterpret_cast<T *>(PyBytes_AS_STRING(bytes));
    for (const auto &one : all) *to++ = get(one);
    return bytes;
}

template <class All, class Get>
PyObject *lives(const All &all, Get life) {
    return Py_BuildValue(
        "{sNsNsNsNsNsNsNsNsNsNsNsN}", "bytes", told(all, [&](auto &one) { return life(one).bytes; }),
        "born", told(all, [&](auto &one) { return life(one).born; }), "last_use", told(all, [&](auto &one) { return life(one).last_use; }),
        "ended", told(all, [&](auto &one) { return life(one).ended; }), "buffer", told(all, [&](auto &one) { return life(one).buffer; }),
        "batch", told(all, [&](auto &one) { return life(one).batch; }), "last_batch", told(all, [&](auto &one) { return life(one).last_batch; }),
        "site", told(all, [&](auto &one) { return life(one).site; }), "step", told(all, [&](auto &one) { return life(one).step; }),
        "scope", told(all, [&](auto &one) { return life(one).scope; }), "device", told(all, [&](auto &one) { return life(one).device; }),
        "kind", told(all, [&](auto &one) { return life(one).kind; }));
}

std::vector<Life> living(Scan &scan, unsigned int process) {
    std::vector<Life> found;
    if (process < scan.living.size()) scan.living[process].each([&](const Life &life) { found.push_back(life); });
    return found;
}

// alive(scan, process): the living, as columns.
PyObject *py_alive(PyObject *, PyObject *args) {
    unsigned int process;
    Scan *scan = scan_and(args, &process);
    if (!scan) return nullptr;
    return lives(living(*scan, process), [](const Life &life) -> const Life & { return life; });
}

// keep(scan, process): the living as they are, for `restore`.
PyObject *py_keep(PyObject *, PyObject *args) {
    unsigned int process;
    Scan *scan = scan_and(args, &process);
    if (!scan) return nullptr;
    return told(living(*scan, process), [](const Life &life) { return life; });
}

PyObject *py_restore(PyObject *, PyObject *args) {
    PyObject *capsule;
    unsigned int process;
    Py_buffer from;
    if (!PyArg_ParseTuple(args, "OIy*", &capsule, &process, &from)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (scan) scan->restore(process, static_cast<const Life *>(from.buf), static_cast<size_t>(from.len) / sizeof(Life));
    PyBuffer_Release(&from);
    if (!scan) return nullptr;
    Py_RETURN_NONE;
}

PyObject *of_processes(const std::vector<Long> &all) {
    PyObject *found = lives(all, [](const Long &one) -> const Life & { return one.life; });
    PyObject *process = found ? told(all, [](const Long &one) { return one.process; }) : nullptr;
    if (process) PyDict_SetItemString(found, "process", process);
    Py_XDECREF(process);
    return found;
}

// longs(scan): those who lived through many batches.
PyObject *py_longs(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    return scan ? of_processes(scan->longs) : nullptr;
}

// ended(scan): those who ended since this was asked before; from the first time on they are collected.
PyObject *py_ended(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    scan->collecting = true;
    PyObject *found = of_processes(scan->ended);
    scan->ended.clear();
    return found;
}

// peaks(scan, process): (bytes, time, left) of each device; of all processes if that is below 0.
PyObject *py_peaks(PyObject *, PyObject *args) {
    int process;
    Scan *scan = scan_and(args, &process);
    if (!scan) return nullptr;
    PyObject *list = PyList_New(0);
    const Curve *curve = &scan->all;
    if (process >= 0 && static_cast<size_t>(process) < scan->each.size() && scan->each[static_cast<size_t>(process)]) curve = scan->each[static_cast<size_t>(process)].get();
    for (int device = 0; list && device < kDevices; device++) {
        PyObject *one = Py_BuildValue("(LLL)", static_cast<long long>(curve->most[device]), static_cast<long long>(curve->at[device]), static_cast<long long>(curve->level[device]));
        if (one) PyList_Append(list, one);
        Py_XDECREF(one);
    }
    return list;
}

// The arguments (scan, device), and the scan's curve of that device; nullptr and an error if there is none.
Scan *scan_and_device(PyObject *args, const std::vector<Bin> **bins) {
    int device;
    Scan *scan = scan_and(args, &device);
    if (!scan) return nullptr;
    if (device < 0 || device >= kDevices) return PyErr_Format(PyExc_ValueError, "no such device"), nullptr;
    *bins = &scan->all.bins[device];
    return scan;
}

// bins(scan, device): the curve as (shift, indices, most, last).
PyObject *py_bins(PyObject *, PyObject *args) {
    const std::vector<Bin> *all;
    Scan *scan = scan_and_device(args, &all);
    if (!scan) return nullptr;
    return Py_BuildValue("(iNNN)", scan->all.shift, told(*all, [](auto &bin) { return bin.index; }), told(*all, [](auto &bin) { return bin.most; }),
                         told(*all, [](auto &bin) { return bin.last; }));
}

// moments(scan, device): when each bin of the curve was at its most.
PyObject *py_moments(PyObject *, PyObject *args) {
    const std::vector<Bin> *all;
    return scan_and_device(args, &all) ? told(*all, [](auto &bin) { return bin.when; }) : nullptr;
}

template <class T>
Span<T> span(const Py_buffer &from) {
    return {static_cast<T *>(from.buf), static_cast<size_t>(from.len) / sizeof(T)};
}

// places(moments, times, after): for each time the first moment not before it, or after it.
PyObject *py_places(PyObject *, PyObject *args) {
    Py_buffer moments, times;
    int after;
    if (!PyArg_ParseTuple(args, "y*y*p", &moments, &times, &after)) return nullptr;
    auto found = places(span<const int64_t>(moments), span<const int64_t>(times), after);
    PyBuffer_Release(&moments), PyBuffer_Release(&times);
    return told(found, [](int32_t place) { return place; });
}

// lay(sums, width, rows, from, to, amounts): add each amount to its row of sums, between these places.
PyObject *py_lay(PyObject *, PyObject *args) {
    Py_buffer sums, rows, from, to, amounts;
    Py_ssize_t width;
    if (!PyArg_ParseTuple(args, "w*ny*y*y*y*", &sums, &width, &rows, &from, &to, &amounts)) return nullptr;
    bool right = lay(span<int64_t>(sums), width, span<const int32_t>(rows), span<const int32_t>(from), span<const int32_t>(to), span<const int64_t>(amounts));
    for (Py_buffer *one : {&sums, &rows, &from, &to, &amounts}) PyBuffer_Release(one);
    if (!right) return PyErr_Format(PyExc_ValueError, "rows or places that do not exist");
    Py_RETURN_NONE;
}

PyObject *py_sites(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    const auto &all = scan->sites;
    return Py_BuildValue("{sNsNsNsNsNsN}", "births", told(all, [](auto &site) { return site.births; }), "bytes", told(all, [](auto &site) { return site.bytes; }),
                         "count", told(all, [](auto &site) { return site.count; }), "alive", told(all, [](auto &site) { return site.alive; }),
                         "last", told(all, [](auto &site) { return site.last; }), "drag", told(all, [](auto &site) { return site.drag; }));
}

// growth(scan): (steps a part, the last step, births less ends, their bytes), each [site][part].
PyObject *py_growth(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    auto self = [](int64_t value) { return value; };
    return Py_BuildValue("(LiNN)", 1LL << scan->growth.shift, scan->growth.last, told(scan->growth.count, self), told(scan->growth.bytes, self));
}

// facts(scan): (first, last, births, bytes, late)
PyObject *py_facts(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    uint64_t late = scan->all.late;
    for (auto &curve : scan->each) late += curve ? curve->late : 0;
    return Py_BuildValue("(LLLLK)", static_cast<long long>(scan->first), static_cast<long long>(scan->last),
                         static_cast<long long>(scan->births), static_cast<long long>(scan->bytes), static_cast<unsigned long long>(late));
}

// steps(scan, process): when its steps were done.
PyObject *py_steps(PyObject *, PyObject *args) {
    unsigned int process;
    Scan *scan = scan_and(args, &process);
    if (!scan) return nullptr;
    return told(process < scan->steps.size() ? scan->steps[process] : std::vector<int64_t>(), [](int64_t value) { return value; });
}

#include "trace_digest.h"

PyMethodDef methods[] = {
    {"scan", py_scan, METH_VARARGS, "scan(bins, until, several)"},
    {"feed", py_feed, METH_VARARGS, "feed(scan, process, number, batch, places, maps): the latest time"},
    {"settle", py_settle, METH_VARARGS, "settle(scan, process, own, until)"},
    {"finish", py_finish, METH_O, "finish(scan)"},
    {"alive", py_alive, METH_VARARGS, "alive(scan, process): the living"},
    {"keep", py_keep, METH_VARARGS, "keep(scan, process): the living, for restore"},
    {"restore", py_restore, METH_VARARGS, "restore(scan, process, kept)"},
    {"longs", py_longs, METH_O, "longs(scan): those who lived through many batches"},
    {"ended", py_ended, METH_O, "ended(scan): those who ended since this was asked before"},
    {"peaks", py_peaks, METH_VARARGS, "peaks(scan, process): bytes, time and rest of each device"},
    {"bins", py_bins, METH_VARARGS, "bins(scan, device): the curve"},
    {"moments", py_moments, METH_VARARGS, "moments(scan, device): when each bin of the curve was at its most"},
    {"places", py_places, METH_VARARGS, "places(moments, times, after): the first moment not before each time, or after it"},
    {"lay", py_lay, METH_VARARGS, "lay(sums, width, rows, from, to, amounts): add amounts to rows, between places"},
    {"sites", py_sites, METH_O, "sites(scan): what was born at each site"},
    {"growth", py_growth, METH_O, "growth(scan): births less ends by site and part of the run"},
    {"steps", py_steps, METH_VARARGS, "steps(scan, process): when its steps were done"},
    {"pack", py_pack, METH_O, "pack(scan): a finished scan of one stream, as bytes"},
    {"unpack", py_unpack, METH_VARARGS, "unpack(bytes): the scan again"},
    {"weight", py_weight, METH_O, "weight(scan): the bytes of what grows with a run"},
    {"facts", py_facts, METH_O, "facts(scan): the run in numbers"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_trace_scan", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
