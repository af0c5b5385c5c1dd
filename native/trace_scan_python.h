// The Python face of the scan: included by trace_scan.cpp, inside its namespace. No logic here.

constexpr const char *kCapsule = "tenure.scan";

Scan *scan_of(PyObject *capsule) { return static_cast<Scan *>(PyCapsule_GetPointer(capsule, kCapsule)); }

// scan(bins, until, several): a new one; `until` below 0 for all of time, `several` for a curve of each process too.
PyObject *py_scan(PyObject *, PyObject *args) {
    Py_ssize_t bins;
    long long until;
    int several;
    if (!PyArg_ParseTuple(args, "nLp", &bins, &until, &several)) return nullptr;
    auto *scan = new Scan(static_cast<size_t>(bins), until < 0 ? kNever : until, several && until < 0);
    return PyCapsule_New(scan, kCapsule, [](PyObject *self) { delete scan_of(self); });
}

struct Views {  // of Python's buffers, while the columns are looked at
    Py_buffer all[32];
    int count = 0;
    ~Views() {
        while (count) PyBuffer_Release(&all[--count]);
    }
    const Py_buffer *take(PyObject *from) {
        if (from == Py_None) return nullptr;
        if (PyObject_GetBuffer(from, &all[count], PyBUF_SIMPLE) < 0) return nullptr;
        return &all[count++];
    }
};

template <class T>
bool column(PyObject *pair, Views &views, size_t rows, Column<T> &into) {
    if (pair == Py_None) return true;
    const Py_buffer *there = views.take(PyTuple_GET_ITEM(pair, 0));
    const Py_buffer *values = PyErr_Occurred() ? nullptr : views.take(PyTuple_GET_ITEM(pair, 1));
    if (PyErr_Occurred()) return false;
    if ((there && static_cast<size_t>(there->len) < (rows + 7) / 8) || !values || static_cast<size_t>(values->len) < rows * sizeof(T)) {
        PyErr_SetString(PyExc_ValueError, "a column that is too short");
        return false;
    }
    into.values = static_cast<const T *>(values->buf);
    into.there = there ? static_cast<const uint8_t *>(there->buf) : nullptr;
    return true;
}

// feed(scan, process, batch, rows, columns, maps): the latest time. Columns are pairs (bits, values), or None.
PyObject *py_feed(PyObject *, PyObject *args) {
    PyObject *capsule, *columns, *maps;
    unsigned int process, number;
    Py_ssize_t rows;
    if (!PyArg_ParseTuple(args, "OIInO!O!", &capsule, &process, &number, &rows, &PyTuple_Type, &columns, &PyTuple_Type, &maps)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    if (PyTuple_GET_SIZE(columns) != 10 || PyTuple_GET_SIZE(maps) != 5) return PyErr_Format(PyExc_TypeError, "ten columns and five maps are needed");
    Views views;
    Batch batch{};
    batch.process = process, batch.number = number, batch.rows = static_cast<size_t>(rows);
    auto at = [&](int place) { return PyTuple_GET_ITEM(columns, place); };
    bool fine = column(at(0), views, batch.rows, batch.time) && column(at(1), views, batch.rows, batch.event) &&
                column(at(2), views, batch.rows, batch.buffer) && column(at(3), views, batch.rows, batch.bytes) &&
                column(at(4), views, batch.rows, batch.device) && column(at(5), views, batch.rows, batch.site) &&
                column(at(6), views, batch.rows, batch.kind) && column(at(7), views, batch.rows, batch.last_use) &&
                column(at(8), views, batch.rows, batch.step) && column(at(9), views, batch.rows, batch.scope);
    if (!fine) return nullptr;
    int place = 0;
    for (Map *map : {&batch.events, &batch.devices, &batch.sites, &batch.kinds, &batch.scopes}) {
        const Py_buffer *view = views.take(PyTuple_GET_ITEM(maps, place++));
        if (!view) return nullptr;
        map->numbers = static_cast<const int32_t *>(view->buf);
        map->length = static_cast<size_t>(view->len) / sizeof(int32_t);
    }
    int64_t high;
    Py_BEGIN_ALLOW_THREADS
    high = scan->feed(batch);
    Py_END_ALLOW_THREADS
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

// alive(scan, process): the living, as columns.
PyObject *py_alive(PyObject *, PyObject *args) {
    PyObject *capsule;
    unsigned int process;
    if (!PyArg_ParseTuple(args, "OI", &capsule, &process)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    std::vector<Life> found;
    if (process < scan->living.size()) scan->living[process].each([&](const Life &life) { found.push_back(life); });
    return lives(found, [](const Life &life) -> const Life & { return life; });
}

// keep(scan, process): the living as they are, for `restore`.
PyObject *py_keep(PyObject *, PyObject *args) {
    PyObject *capsule;
    unsigned int process;
    if (!PyArg_ParseTuple(args, "OI", &capsule, &process)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    std::vector<Life> found;
    if (process < scan->living.size()) scan->living[process].each([&](const Life &life) { found.push_back(life); });
    return told(found, [](const Life &life) { return life; });
}

PyObject *py_restore(PyObject *, PyObject *args) {
    PyObject *capsule;
    unsigned int process;
    Py_buffer from;
    if (!PyArg_ParseTuple(args, "OIy*", &capsule, &process, &from)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (scan) {
        if (scan->living.size() <= process) scan->living.resize(process + 1);
        const auto *lives = static_cast<const Life *>(from.buf);
        for (size_t i = 0; i < static_cast<size_t>(from.len) / sizeof(Life); i++) scan->living[process].add(lives[i].buffer) = lives[i];
    }
    PyBuffer_Release(&from);
    if (!scan) return nullptr;
    Py_RETURN_NONE;
}

// longs(scan): those who lived through many batches.
PyObject *py_longs(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    const auto &all = scan->longs;
    PyObject *found = lives(all, [](const Long &one) -> const Life & { return one.life; });
    PyObject *process = found ? told(all, [](const Long &one) { return one.process; }) : nullptr;
    if (process) PyDict_SetItemString(found, "process", process);
    Py_XDECREF(process);
    return found;
}

// peaks(scan, process): (bytes, time, left) of each device; of all processes if that is below 0.
PyObject *py_peaks(PyObject *, PyObject *args) {
    PyObject *capsule;
    int process;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &process)) return nullptr;
    Scan *scan = scan_of(capsule);
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

// bins(scan, device): the curve as (shift, indices, most, last).
PyObject *py_bins(PyObject *, PyObject *args) {
    PyObject *capsule;
    int device;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &device)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    if (device < 0 || device >= kDevices) return PyErr_Format(PyExc_ValueError, "no such device");
    const auto &all = scan->all.bins[device];
    return Py_BuildValue("(iNNN)", scan->all.shift, told(all, [](auto &bin) { return bin.index; }), told(all, [](auto &bin) { return bin.most; }),
                         told(all, [](auto &bin) { return bin.last; }));
}

PyObject *py_sites(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    const auto &all = scan->sites;
    return Py_BuildValue("{sNsNsNsNsN}", "births", told(all, [](auto &site) { return site.births; }), "bytes", told(all, [](auto &site) { return site.bytes; }),
                         "count", told(all, [](auto &site) { return site.count; }), "alive", told(all, [](auto &site) { return site.alive; }),
                         "drag", told(all, [](auto &site) { return site.drag; }));
}

// growth(scan): (steps a part, the last step, births less ends, their bytes), each [site][part].
PyObject *py_growth(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    auto self = [](int64_t value) { return value; };
    return Py_BuildValue("(LiNN)", static_cast<long long>(scan->growth.width), scan->growth.last, told(scan->growth.count, self), told(scan->growth.bytes, self));
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
    PyObject *capsule;
    unsigned int process;
    if (!PyArg_ParseTuple(args, "OI", &capsule, &process)) return nullptr;
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    return told(process < scan->steps.size() ? scan->steps[process] : std::vector<int64_t>(), [](int64_t value) { return value; });
}

PyMethodDef methods[] = {
    {"scan", py_scan, METH_VARARGS, "scan(bins, until, several)"},
    {"feed", py_feed, METH_VARARGS, "feed(scan, process, batch, rows, columns, maps): the latest time"},
    {"settle", py_settle, METH_VARARGS, "settle(scan, process, own, until)"},
    {"finish", py_finish, METH_O, "finish(scan)"},
    {"alive", py_alive, METH_VARARGS, "alive(scan, process): the living"},
    {"keep", py_keep, METH_VARARGS, "keep(scan, process): the living, for restore"},
    {"restore", py_restore, METH_VARARGS, "restore(scan, process, kept)"},
    {"longs", py_longs, METH_O, "longs(scan): those who lived through many batches"},
    {"peaks", py_peaks, METH_VARARGS, "peaks(scan, process): bytes, time and rest of each device"},
    {"bins", py_bins, METH_VARARGS, "bins(scan, device): the curve"},
    {"sites", py_sites, METH_O, "sites(scan): what was born at each site"},
    {"growth", py_growth, METH_O, "growth(scan): births less ends by site and part of the run"},
    {"steps", py_steps, METH_VARARGS, "steps(scan, process): when its steps were done"},
    {"facts", py_facts, METH_O, "facts(scan): the run in numbers"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_trace_scan", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
