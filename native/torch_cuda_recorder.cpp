// Watching CUDA's caching allocator: every block that it hands out or takes back, on all threads.
//
// The allocator tells what was asked for; what it counts is the block that it gave, which may be larger. So that the
// sum is `torch.cuda.memory_allocated()` to the byte, the block's size is worked out from the allocator's own total:
// an allocation is told before the total grows, a free after it shrank, both under the allocator's lock.
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
    int64_t total = 0;          // when the last event was told
    void *pending = nullptr;    // the last allocation, whose size the next total shows
    std::unordered_map<void *, int64_t> sizes;
    std::atomic<uint64_t> version{0};
};
Device devices[64];
std::mutex guard;

int64_t total_now(c10::DeviceIndex index) {
    auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
    return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

void resolve(Device &device, int64_t grown) {
    if (!device.pending) return;
    void *where = device.pending;
    device.pending = nullptr;
    if (grown <= 0) return;
    device.sizes[where] = grown;
    recorder->sized(where, static_cast<size_t>(grown));
}

// Called under the allocator's lock, which is recursive: its statistics may be asked for.
void on_event(const TraceEntry &entry) {
    if (!active.load(std::memory_order_relaxed) || entry.device_ < 0 || entry.device_ >= 64) return;
    void *where = reinterpret_cast<void *>(entry.addr_);
    if (entry.action_ == TraceEntry::ALLOC) {
        int64_t total = total_now(entry.device_);
        std::lock_guard<std::mutex> lock(guard);
        Device &device = devices[entry.device_];
        resolve(device, total - device.total);
        device.total = total;
        device.pending = where;
        device.sizes[where] = static_cast<int64_t>(entry.size_);
        device.version++;
        recorder->born(where, entry.size_, entry.device_);
    } else if (entry.action_ == TraceEntry::FREE_REQUESTED) {
        int64_t total = total_now(entry.device_);
        std::lock_guard<std::mutex> lock(guard);
        Device &device = devices[entry.device_];
        auto found = device.sizes.find(where);
        if (device.pending == where) device.pending = nullptr;  // never seen alive by anybody
        else resolve(device, total - device.total + (found == device.sizes.end() ? 0 : found->second));
        device.total = total;
        if (found != device.sizes.end()) device.sizes.erase(where);
        device.version++;
        recorder->gone(where);
    }
}

// start(tellers, blocks): begin; `blocks` are those in use now, as (address, bytes, device).
PyObject *py_start(PyObject *, PyObject *args) {
    PyObject *capsule, *blocks;
    if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyList_Type, &blocks)) return nullptr;
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
            devices[index].sizes[reinterpret_cast<void *>(where)] = bytes;
            devices[index].total += bytes;
            recorder->born(reinterpret_cast<void *>(where), static_cast<size_t>(bytes), index);
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
        int64_t total = total_now(static_cast<c10::DeviceIndex>(i));
        std::lock_guard<std::mutex> lock(guard);
        if (devices[i].version == version && devices[i].pending) {
            resolve(devices[i], total - devices[i].total);
            devices[i].total = total;
        }
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"start", py_start, METH_VARARGS, "start(tellers, blocks): begin"},
    {"stop", py_stop, METH_NOARGS, "stop(): end"},
    {"settle", py_settle, METH_O, "settle(devices): find the size of the last allocation"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "tenure_torch_cuda_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_tenure_torch_cuda_recorder() { return PyModule_Create(&module); }
