// Watching CUDA's caching allocator: every block that it hands out or takes back, on all threads.
//
// The allocator tells what was asked for; what it counts is the block that it gave. Small blocks are what was asked for,
// rounded up to 512 bytes. A large one may be larger by up to a MiB; so that the sum is `torch.cuda.memory_allocated()`
// to the byte, its size is worked out from the allocator's own sums at the next event: an allocation is told before the
// bytes alive grow, a free after they shrank and those freed so far grew, all under the allocator's lock.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <thread>

#include "queues.h"
#include "torch_recorder.h"

namespace {

using c10::CachingDeviceAllocator::TraceEntry;

const Tellers *recorder = nullptr;
std::atomic<bool> active{false};
bool attached = false;

// Changed only under the allocator's lock for this device, so that it needs none of its own; `settle` looks on.
struct Device {
    std::atomic<uint64_t> changes{0};      // odd while there is one
    std::atomic<int64_t> total{0};         // alive, as the events so far make it
    int64_t freed = 0;                     // so far, likewise
    std::atomic<void *> pending{nullptr};  // the last allocation, if its size is not known yet
    uint64_t settled = 0;                  // the changes there had been when `settle` last told a size
    ska::flat_hash_map<void *, int64_t> sizes;  // of those whose own does not follow from what was asked for

    void add(int64_t bytes) { set_total(total.load(std::memory_order_relaxed) + bytes); }
    void set_total(int64_t bytes) { total.store(bytes, std::memory_order_relaxed); }
    void wait_for(void *where) { pending.store(where, std::memory_order_relaxed); }
};
Device *const devices = new Device[64];  // never destroyed: the allocator goes on at exit
bool exact = true;  // small blocks are only rounded up to 512 bytes
constexpr int64_t kLarge = 1 << 20;

struct Change {
    Device &device;
    explicit Change(Device &of) : device(of) { device.changes.fetch_add(1); }
    ~Change() { device.changes.store(device.changes.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
};

struct Sums {
    int64_t alive = 0, freed = 0;
};

Sums sums_now(c10::DeviceIndex index) {
    auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
    const auto &bytes = stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    return {bytes.current, bytes.freed};
}

void resolve(Device &device, void *pending, int64_t total) {
    int64_t size = total - device.total;
    if (size > 0) {
        device.sizes[pending] = size;
        recorder->sized(tenure::ticks(), pending, static_cast<size_t>(size));
        device.set_total(total);
    }
    device.wait_for(nullptr);
}

// Called under the allocator's lock, which is recursive: its statistics may be asked for.
void on_event(const TraceEntry &entry) {
    bool begins = entry.action_ == TraceEntry::ALLOC;
    if (!active.load(std::memory_order_relaxed) || (!begins && entry.action_ != TraceEntry::FREE_REQUESTED)) return;
    if (entry.device_ < 0 || entry.device_ >= 64) return;
    Device &device = devices[entry.device_];
    Change change(device);
    if (!active.load()) return;  // `py_stop` waits for changes that it came too late for
    void *where = reinterpret_cast<void *>(entry.addr_), *pending = device.pending;
    Sums now = pending ? sums_now(entry.device_) : Sums{};
    int64_t size = (static_cast<int64_t>(entry.size_) + 511) / 512 * 512;
    bool known = exact && size <= kLarge;  // a free tells what was asked for, too
    if (begins) {
        if (pending) resolve(device, pending, now.alive), device.freed = now.freed;
        if (known) device.add(size);
        else device.sizes[where] = size, device.wait_for(where);
        recorder->born(where, static_cast<size_t>(size), entry.device_, known);
        return;
    }
    if (!known) {
        auto found = device.sizes.find(where);
        size = found == device.sizes.end() ? 0 : found->second;
        if (found != device.sizes.end()) device.sizes.erase(found);
    }
    if (pending == where) {  // it went before anybody saw its size
        if (now.freed > device.freed) size = now.freed - device.freed;
        recorder->sized(tenure::ticks(), where, static_cast<size_t>(size));
        device.wait_for(nullptr);
        device.set_total(now.alive);
    } else {
        if (pending) resolve(device, pending, now.alive + size);
        device.add(-size);
    }
    device.freed = pending ? now.freed : device.freed + size;
    recorder->gone(where);
}

// start(tellers, blocks, exact): begin; `blocks` are those in use now, as (address, bytes, device).
PyObject *py_start(PyObject *, PyObject *args) {
    PyObject *capsule, *blocks;
    int is_exact;
    if (!PyArg_ParseTuple(args, "OO!p", &capsule, &PyList_Type, &blocks, &is_exact)) return nullptr;
    exact = is_exact;
    recorder = static_cast<const Tellers *>(PyCapsule_GetPointer(capsule, kTellersCapsule));
    if (!recorder) return nullptr;
    for (int i = 0; i < 64; i++) devices[i].sizes.clear(), devices[i].wait_for(nullptr), devices[i].set_total(0);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(blocks); i++) {
        unsigned long long where;
        long long bytes;
        int index;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(blocks, i), "KLi", &where, &bytes, &index)) return nullptr;
        if (!exact || bytes > kLarge) devices[index].sizes[reinterpret_cast<void *>(where)] = bytes;
        devices[index].add(bytes);
        recorder->born(reinterpret_cast<void *>(where), static_cast<size_t>(bytes), index, true);
    }
    try {
        for (int i = 0; i < c10::cuda::device_count() && i < 64; i++) devices[i].freed = sums_now(static_cast<c10::DeviceIndex>(i)).freed;
        if (!attached) c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(on_event);
        attached = true;
    } catch (const std::exception &error) {
        return PyErr_Format(PyExc_RuntimeError, "%s", error.what());
    }
    active = true;
    Py_RETURN_NONE;
}

PyObject *py_stop(PyObject *, PyObject *) {
    active = false;
    // Who does not know it yet is in the middle of a change, and does not wait for the GIL.
    for (int i = 0; i < 64; i++)
        while (devices[i].changes.load() & 1) std::this_thread::yield();
    Py_RETURN_NONE;
}

// settle(devices): tell the size of the last allocation on each of so many devices.
PyObject *py_settle(PyObject *, PyObject *count) {
    long many = PyLong_AsLong(count);
    if (many < 0) return nullptr;
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; active && i < many && i < 64; i++) {
        Device &device = devices[i];
        uint64_t changes = device.changes.load(), time = tenure::ticks();  // that moment's, for what may happen to it next
        void *pending = device.pending;
        int64_t known = device.total;
        if (!pending || changes & 1 || changes == device.settled) continue;
        int64_t size = sums_now(static_cast<c10::DeviceIndex>(i)).alive - known;
        if (size <= 0 || device.changes.load() != changes) continue;  // something happened meanwhile, and told it
        recorder->sized(time, pending, static_cast<size_t>(size));
        device.settled = changes;
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"start", py_start, METH_VARARGS, "start(tellers, blocks, exact): begin"},
    {"stop", py_stop, METH_NOARGS, "stop(): end"},
    {"settle", py_settle, METH_O, "settle(devices): find the size of the last allocation"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_torch_cuda_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_tenure_torch_cuda_recorder() { return PyModule_Create(&module); }
