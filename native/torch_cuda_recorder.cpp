// Watching CUDA's caching allocator: every block that it hands out or takes back, on all threads.
//
// The allocator tells what was asked for; what it counts is the block that it gave. Small blocks are what was asked for,
// rounded up to 512 bytes. A large one may be larger by up to a MiB; so that the sum is `torch.cuda.memory_allocated()`
// to the byte, its size is worked out from the allocator's own total at the next event: an allocation is told before the
// total grows, a free after it shrank, both under the allocator's lock.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "torch_recorder.h"

namespace {

using c10::CachingDeviceAllocator::TraceEntry;

const Tellers *recorder = nullptr;
std::atomic<bool> active{false};
bool attached = false;

struct Device {
    int64_t total = 0;        // as the events so far make it
    void *pending = nullptr;  // the last allocation, if its size is not known yet
    std::unordered_map<void *, int64_t> sizes;  // of those whose own does not follow from what was asked for
    std::atomic<uint64_t> version{0};
};
Device devices[64];
std::mutex guard;
bool exact = true;  // small blocks are only rounded up to 512 bytes
constexpr int64_t kLarge = 1 << 20;

int64_t total_now(c10::DeviceIndex index) {
    auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
    return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

void resolve(Device &device, int64_t total) {
    int64_t size = total - device.total;
    if (device.pending && size > 0) {
        device.sizes[device.pending] = size;
        recorder->sized(device.pending, static_cast<size_t>(size));
        device.total = total;
    }
    device.pending = nullptr;
}

// Called under the allocator's lock, which is recursive: its statistics may be asked for.
void on_event(const TraceEntry &entry) {
    bool begins = entry.action_ == TraceEntry::ALLOC;
    if (!active.load(std::memory_order_relaxed) || entry.device_ < 0 || entry.device_ >= 64) return;
    if (!begins && entry.action_ != TraceEntry::FREE_REQUESTED) return;
    void *where = reinterpret_cast<void *>(entry.addr_);
    Device &device = devices[entry.device_];
    int64_t total = device.pending ? total_now(entry.device_) : 0;  // only events of this device change `pending`
    int64_t size = (static_cast<int64_t>(entry.size_) + 511) / 512 * 512;
    bool known = exact && size <= kLarge;  // a free tells what was asked for, too
    std::lock_guard<std::mutex> lock(guard);
    device.version++;
    if (begins) {
        if (device.pending) resolve(device, total);
        if (known) device.total += size;
        else device.sizes[where] = size, device.pending = where;
        recorder->born(where, static_cast<size_t>(size), entry.device_, known);
        return;
    }
    if (!known) {
        auto found = device.sizes.find(where);
        size = found == device.sizes.end() ? 0 : found->second;
        if (found != device.sizes.end()) device.sizes.erase(found);
    }
    if (device.pending == where) {  // it went before anybody saw its size
        recorder->sized(where, static_cast<size_t>(size));
        device.pending = nullptr;
        device.total = total;
    } else {
        if (device.pending) resolve(device, total + size);
        device.total -= size;
    }
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
    {
        std::lock_guard<std::mutex> lock(guard);
        for (auto &device : devices) device.sizes.clear(), device.pending = nullptr, device.total = 0;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(blocks); i++) {
            unsigned long long where;
            long long bytes;
            int index;
            if (!PyArg_ParseTuple(PyList_GET_ITEM(blocks, i), "KLi", &where, &bytes, &index)) return nullptr;
            if (!exact || bytes > kLarge) devices[index].sizes[reinterpret_cast<void *>(where)] = bytes;
            devices[index].total += bytes;
            recorder->born(reinterpret_cast<void *>(where), static_cast<size_t>(bytes), index, true);
        }
    }
    if (!attached) {
        attached = true;
        try {
            c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(on_event);
        } catch (const std::exception &error) {
            return PyErr_Format(PyExc_RuntimeError, "%s", error.what());
        }
    }
    active = true;
    Py_RETURN_NONE;
}

PyObject *py_stop(PyObject *, PyObject *) {
    active = false;
    Py_RETURN_NONE;
}

// settle(devices): find the size of the last allocation on each of so many devices.
PyObject *py_settle(PyObject *, PyObject *count) {
    long many = PyLong_AsLong(count);
    if (many < 0) return nullptr;
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; active && i < many && i < 64; i++) {
        // Never the allocator's lock inside ours: look, and take the look back if something happened meanwhile.
        uint64_t version = devices[i].version;
        if (!devices[i].pending) continue;
        int64_t total = total_now(static_cast<c10::DeviceIndex>(i));
        std::lock_guard<std::mutex> lock(guard);
        if (devices[i].version == version && devices[i].pending) resolve(devices[i], total);
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
