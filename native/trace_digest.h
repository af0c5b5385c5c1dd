// The state of a scan of one stream as bytes, and back. The bytes come out of a file: nothing in them is believed.

class Packed {
  public:
    std::string bytes;
    template <class T>
    void put(const T &value) {
        bytes.append(reinterpret_cast<const char *>(&value), sizeof(T));
    }
    template <class T>
    void put(const std::vector<T> &all) {
        put(static_cast<uint64_t>(all.size()));
        bytes.append(reinterpret_cast<const char *>(all.data()), all.size() * sizeof(T));
    }
};

class Unpacked {
  public:
    Unpacked(const void *from, size_t length) : at_(static_cast<const char *>(from)), left_(length) {}
    template <class T>
    bool get(T &value) {
        if (left_ < sizeof(T)) return false;
        std::memcpy(&value, at_, sizeof(T));
        at_ += sizeof(T), left_ -= sizeof(T);
        return true;
    }
    template <class T>
    bool get(std::vector<T> &all) {
        uint64_t count;
        if (!get(count) || count > left_ / sizeof(T)) return false;
        all.resize(count);
        std::memcpy(static_cast<void *>(all.data()), at_, count * sizeof(T));
        at_ += count * sizeof(T), left_ -= count * sizeof(T);
        return true;
    }
    bool done() const { return left_ == 0; }

  private:
    const char *at_;
    size_t left_;
};

// What must be the same for the bytes to mean the same.
constexpr uint64_t kLayout = 0x7e4d0001ULL << 32 | sizeof(Life) << 24 | sizeof(Long) << 16 | sizeof(Bin) << 8 | sizeof(Site);

std::string packed(const Scan &scan) {
    Packed to;
    to.put(kLayout);
    to.put(scan.first), to.put(scan.last), to.put(scan.births), to.put(scan.bytes);
    to.put(scan.all.level), to.put(scan.all.most), to.put(scan.all.at), to.put(scan.all.shift), to.put(scan.all.late);
    for (const auto &bins : scan.all.bins) to.put(bins);
    to.put(scan.sites), to.put(scan.longs);
    to.put(scan.growth.shift), to.put(scan.growth.last), to.put(scan.growth.count), to.put(scan.growth.bytes);
    to.put(scan.steps.empty() ? std::vector<int64_t>() : scan.steps[0]);
    std::vector<Life> living;
    if (!scan.living.empty()) scan.living[0].each([&](const Life &life) { living.push_back(life); });
    to.put(living);
    return to.bytes;
}

bool fits(const Life &life, const Scan &scan) {
    return life.device >= 0 && life.device < kDevices && life.site >= -1 && life.site < static_cast<int64_t>(scan.sites.size());
}

bool unpack(Unpacked from, Scan &scan) {
    uint64_t layout;
    std::vector<Life> living;
    scan.steps.resize(1);
    if (!from.get(layout) || layout != kLayout) return false;
    bool whole = from.get(scan.first) && from.get(scan.last) && from.get(scan.births) && from.get(scan.bytes) && from.get(scan.all.level) &&
                 from.get(scan.all.most) && from.get(scan.all.at) && from.get(scan.all.shift) && from.get(scan.all.late);
    for (auto &bins : scan.all.bins) whole = whole && from.get(bins);
    whole = whole && from.get(scan.sites) && from.get(scan.longs) && from.get(scan.growth.shift) && from.get(scan.growth.last) &&
            from.get(scan.growth.count) && from.get(scan.growth.bytes) && from.get(scan.steps[0]) && from.get(living) && from.done();
    if (!whole || scan.all.shift < 0 || scan.all.shift > 62 || scan.growth.shift < 0 || scan.growth.shift > 31) return false;
    size_t parts = scan.growth.count.size();
    if (parts != scan.growth.bytes.size() || parts % Growth::kParts || parts / Growth::kParts > scan.sites.size()) return false;
    for (const Long &one : scan.longs)
        if (one.process || !fits(one.life, scan)) return false;
    for (const Life &life : living)
        if (!fits(life, scan)) return false;
    scan.living.resize(1);
    for (const Life &life : living) scan.living[0].add(life.buffer) = life;
    return true;
}

// pack(scan): a scan of one stream, when it is finished, as bytes.
PyObject *py_pack(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    std::string bytes = packed(*scan);
    return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
}

// unpack(bytes): the scan again; ValueError if these are not its bytes.
PyObject *py_unpack(PyObject *, PyObject *args) {
    Py_buffer from;
    if (!PyArg_ParseTuple(args, "y*", &from)) return nullptr;
    auto scan = std::make_unique<Scan>(0, kNever, false);
    bool right = unpack(Unpacked(from.buf, static_cast<size_t>(from.len)), *scan);
    PyBuffer_Release(&from);
    if (!right) return PyErr_Format(PyExc_ValueError, "these are not the bytes of a scan");
    return capsule_of(scan.release());
}

// weight(scan): the bytes of what grows with the length of a run.
PyObject *py_weight(PyObject *, PyObject *capsule) {
    Scan *scan = scan_of(capsule);
    if (!scan) return nullptr;
    size_t bytes = scan->longs.size() * sizeof(Long) + scan->growth.count.size() * 16 + scan->sites.size() * sizeof(Site);
    for (const auto &one : scan->living) bytes += one.size() * sizeof(Life) * 2;
    for (const auto &one : scan->steps) bytes += one.size() * 8;
    return PyLong_FromSize_t(bytes);
}
