// Watching torch from below: every operation, every allocation and every free, on all threads, told to queues.
//
// Operations come from at::RecordFunction, autograd's nodes from the engine's own calls. Allocations on the host come from
// an allocator that stands before torch's own: the bytes, their address and who frees them stay the same, only the
// deleter says so first. torch.profiler keeps its slot. A storage that others made (NumPy, a file, shared memory) is met
// when an operation takes it, and watched by a weak reference. What is read here is only addresses and sizes: no tensor is
// kept alive, no Python code runs.
#include "calls.h"
#include "forks.h"
#include "frames.h"
#include "lives.h"
#include "stacks.h"
#include "torch_recorder.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/COW.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cctype>
#include <cstring>
#include <unordered_map>

using namespace tenure;

namespace {

CaptureStack take_stack = nullptr;
std::atomic<bool> active{false};
std::atomic<uint32_t> last_stack{0};  // of a thread that runs Python: autograd's own threads run none

// Never destroyed: threads outlive static objects at exit.
Chunks &chunks = *new Chunks;
std::mutex &registry = *new std::mutex;
struct Self;
std::vector<Self *> &selves = *new std::vector<Self *>;
std::vector<std::string> &threads = *new std::vector<std::string>;
std::mutex &reading = *new std::mutex;
Lives &lives = *new Lives;

void drain(bool up_to_now, bool last);

#include "torch_words.h"

// ---------------------------------------------------------------- this thread

struct Caller {  // of a function: its frame, which may become another's
    _PyInterpreterFrame *frame;
    PyCodeObject *code;
};

struct Number {
    uint64_t time;
    void *where;
    size_t bytes;
};

using Listeners = at::StepCallbacks;

struct Self {
    Queue queue{chunks};
    int depth = 0;       // of operations inside operations
    uint16_t op = 0;     // the outermost
    uint16_t node = 0;   // the autograd node that is at work
    uint32_t stack = 0;  // where the outermost was called
    uint8_t cause = 0;
    uint32_t generation = 0;
    std::vector<uint16_t> nodes;  // the nodes around it: backward can run inside backward
    Listeners *listeners = nullptr;  // to this thread's operations
    bool deaf = false;               // we are not among them while one goes on
    struct { int task; _PyInterpreterFrame *frame; uint32_t stack; } run = {-1, nullptr, 0};  // of autograd's engine
    struct { bool on; int depth; uint16_t op; uint32_t stack; const void *arguments; Caller caller; } whole = {};  // what was before an operation as a whole
    Number numbers[4] = {};  // born in it, and not yet told
    uint32_t next_number = 0;

    // What was looked up lately.
    struct { const char *asked; const char *kept; uint16_t number; } names[256] = {};
    struct { uint64_t hash; const char *kept; uint16_t number; } nodes_by_text[256] = {};
    struct { const std::type_info *type; uint16_t number; } nodes_by_type[256] = {};
    struct { uint64_t hash; uint32_t number; } shapes[512] = {};
    c10::StorageImpl *strangers[1024] = {};
    uint32_t graphs[256] = {};  // stacks that were recorded as creating autograd nodes

    uint64_t sequence = 0;  // autograd's number for the next node of this thread, when the operation began

    uint16_t name(const char *text) {
        auto &memo = names[reinterpret_cast<uintptr_t>(text) >> 4 & 255];
        // The address alone will not do: a name may have been made for this one call.
        if (memo.asked != text || std::strcmp(memo.kept, text) != 0) {
            memo.number = add_name(text, memo.kept);
            memo.asked = text;
        }
        return memo.number;
    }

    // For names that are made anew each time, as autograd's are.
    uint16_t name_by_text(const char *text) {
        uint64_t hash = 1;
        for (const char *at = text; *at; at++) hash = (hash ^ static_cast<unsigned char>(*at)) * 0x100000001B3ULL;
        auto &memo = nodes_by_text[hash >> 8 & 255];
        if (memo.hash != hash || std::strcmp(memo.kept, text) != 0) {
            memo.number = add_name(text, memo.kept);
            memo.hash = hash;
        }
        return memo.number;
    }

    uint16_t node_name(torch::autograd::Node *node);

    // 0 for what has none: to ask may run code of the tensor's class, or fail.
    uint32_t shape(const c10::TensorImpl *tensor) noexcept {
        if (tensor->has_symbolic_sizes_strides() || tensor->is_nested()) return 0;
        try {
            return shape(tensor, tensor->sizes());
        } catch (...) {
            return 0;
        }
    }
    uint32_t shape(const c10::TensorImpl *tensor, c10::IntArrayRef sizes) {
        auto type = c10::typeMetaToScalarType(tensor->dtype());
        uint64_t hash = mixed(static_cast<uint64_t>(type) << 32 | sizes.size());
        for (int64_t size : sizes) hash = mixed(hash + static_cast<uint64_t>(size));
        auto &memo = shapes[hash >> 23 & 511];
        if (memo.hash != hash) memo = {hash, add_shape(hash, type, sizes)};
        return memo.number;
    }
};

// A pointer, and the rest on the heap: deleters may still run when a thread's objects are gone.
thread_local Self *mine __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local bool over __attribute__((tls_model("initial-exec"))) = false;

struct Farewell {
    ~Farewell() {
        over = true;
        if (mine) mine->queue.done.store(true);  // the reader takes what is left, and deletes it
        mine = nullptr;
    }
};

constexpr int kMostChunks = 192;  // 24 MiB: if more are waiting, who fills or takes one reads them first

Self *arrive() {
    if (over) return nullptr;
    thread_local Farewell farewell;
    (void)farewell;
    mine = new Self;
    {
        std::lock_guard<std::mutex> lock(registry);
        mine->queue.number = static_cast<uint32_t>(threads.size());
        threads.push_back(std::to_string(PyThread_get_thread_ident()));
        selves.push_back(mine);
    }
    if (chunks.in_use() > kMostChunks) drain(false, false);  // those of threads that have ended
    return mine;
}

inline Self *here() { return C10_LIKELY(mine != nullptr) ? mine : arrive(); }

inline void tell(Self *self, uint64_t time, Type type, const void *where, uint64_t value, uint32_t stack, uint16_t op, uint8_t flags) {
    // If the reader is far behind (it may be waiting for the GIL that we hold), do its work.
    if (self->queue.push({time, reinterpret_cast<uint64_t>(where), value, stack, op, type, flags}) && chunks.in_use() > kMostChunks) drain(false, false);
}

inline uint8_t flags(c10::Device device, bool backward) {
    return static_cast<uint8_t>((device.is_cpu() ? 0 : device.index() + 1) << 1 | backward);
}

#include "torch_listening.h"
#include "torch_places.h"
#include "torch_whole.h"

void born(void *where, size_t bytes, c10::Device device, Type type = kAlloc) {
    Self *self = here();
    if (!self) return;
    look_for_whole(self);
    if (self->whole.on && bytes <= kScalar && device.is_cpu()) hold(self, {ticks(), where, bytes});
    else tell(self, ticks(), type, where, bytes, self->depth == 0 && bytes <= kScalar ? 0 : place(self), self->op ? self->op : self->node, flags(device, self->node));
}

void gone(void *where) {
    Self *self = here();
    if (self) look_for_whole(self);
    if (self && !(self->whole.on && was_held(self, where))) tell(self, ticks(), kFree, where, self->cause, place(self), 0, 0);
}

#include "torch_trouble.h"

// ---------------------------------------------------------------- the host's allocator

c10::Allocator *before = nullptr;
c10::DeleterFnPtr before_delete = nullptr;

void traced_delete(void *where) {
    if (active.load(std::memory_order_relaxed)) gone(where);
    before_delete(where);
}

struct Traced final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        c10::DataPtr data;
        try {
            data = before->allocate(bytes);
        } catch (...) {
            failed(bytes);
            throw;
        }
        if (data.get() && data.compare_exchange_deleter(before_delete, &traced_delete) && active.load(std::memory_order_relaxed))
            born(data.get(), bytes, c10::Device(c10::kCPU));
        return data;
    }
    c10::DeleterFnPtr raw_deleter() const override { return &traced_delete; }
    void copy_data(void *to, const void *from, size_t count) const override { before->copy_data(to, from, count); }
};
Traced &traced = *new Traced;

#include "torch_strangers.h"

// ---------------------------------------------------------------- operations

template <class With>
inline void visit(const c10::IValue &value, With with) {
    if (value.isTensor()) {
        with(value.toTensor());
    } else if (value.isList()) {
        for (const c10::IValue &inner : value.toListRef())
            if (inner.isTensor()) with(inner.toTensor());
    }
}

// The storage's address, if the tensor has one; `_no_checks` because to read a lazy copy's address must not make the copy.
inline void *address(c10::TensorImpl *impl, c10::StorageImpl *&storage) {
    if (!impl->has_storage()) return nullptr;
    storage = impl->unsafe_storage().unsafeGetStorageImpl();
    return storage ? storage->_mutable_data_ptr_no_checks().get() : nullptr;
}
inline void *address(const at::Tensor &tensor, c10::StorageImpl *&storage) {
    return tensor.defined() ? address(tensor.unsafeGetTensorImpl(), storage) : nullptr;
}

inline void tell_shape(Self *self, const at::Tensor &tensor) {
    c10::StorageImpl *storage = nullptr;
    if (void *where = address(tensor, storage)) tell(self, ticks(), kShape, where, self->shape(tensor.unsafeGetTensorImpl()), 0, 0, 0);
}

std::atomic<uint32_t> unseen{0};  // kinds of devices that tensors lie on and whose memory nobody tells us of, a bit each

// An operation takes it. `shaped`: whether its shape, which costs, is told as well.
template <bool shaped>
inline void used(Self *self, uint64_t time, const c10::TensorImpl *impl, c10::StorageImpl *storage, void *where) {
    uint32_t shape = shaped ? self->shape(impl) : 0;
    if (storage->device_type() == c10::kCPU) {
        auto &data = storage->_mutable_data_ptr_no_checks();
        if (data.get_deleter() != &traced_delete && !c10::impl::cow::is_cow_data_ptr(data) && !is_known(self, storage))
            meet(self, storage, where, self->shape(impl), self->stack);
    } else if (C10_UNLIKELY(storage->device_type() != c10::kCUDA)) {
        unseen |= 1u << static_cast<int>(storage->device_type());
    }
    tell(self, time, kUse, where, shape, self->stack, self->op, self->node != 0);
}

inline void taken(Self *self, uint64_t time, const at::Tensor &tensor) {
    c10::StorageImpl *storage = nullptr;
    void *where = address(tensor, storage);
    if (!where) return;
    used<true>(self, time, tensor.unsafeGetTensorImpl(), storage, where);
    if (!self->node && step_before.load(std::memory_order_relaxed)) look_at_graph(tensor);
}

// The operation added a node to an autograd graph: one event for each stack, or a few.
inline void note_graph(Self *self) {
    uint32_t &known = self->graphs[self->stack & 255];
    if (self->stack && known != self->stack) known = self->stack, tell(self, ticks(), kGraph, nullptr, 0, self->stack, 0, 0);
}

#include "torch_nodes.h"

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction &fn) {
    Self *self = active.load(std::memory_order_relaxed) ? here() : nullptr;
    if (!self) return nullptr;
    if (self->depth == 0) {
        const char *name = fn.name();
        if (is_node(self, name)) return nullptr;  // `on_end` knows it by the depth
        self->op = self->node ? self->node : self->name(name);
        self->stack = stack_here(self, true);
        self->sequence = at::sequence_number::peek();
        uint64_t time = ticks();
        bool reads = std::strcmp(name, "detach") != 0;
        for (const auto &input : fn.inputs())
            visit(input, [&](const at::Tensor &tensor) { reads ? taken(self, time, tensor) : tell_shape(self, tensor); });
        self->deaf = stop_listening(self);
    }
    self->depth++;
    return nullptr;
}

void on_end(const at::RecordFunction &, at::ObserverContext *) {
    Self *self = here();
    if (!self) return;
    if (self->whole.on) end_whole();  // nothing is told inside: this is around it, and it failed
    if (self->depth) {
        if (--self->depth == 0) {
            if (at::sequence_number::peek() != self->sequence && !self->node) note_graph(self);
            self->op = 0;
            if (self->deaf) self->deaf = false, listen_again(self);
        }
    } else if (!self->nodes.empty()) {
        self->node = self->nodes.back();
        self->nodes.pop_back();
    }
}

// ---------------------------------------------------------------- reading

struct Clock {  // ticks and nanoseconds of two moments
    uint64_t tick = ticks();
    int64_t time = nanoseconds();
};
Clock earlier;

// `up_to_now`, or without the newest, of which other threads may have older ones to tell; `last`: nothing more will come.
void drain(bool up_to_now, bool last) {
    std::unique_lock<std::mutex> lock(reading, std::try_to_lock);
    if (!lock.owns_lock()) return;
    Clock now;
    double scale = now.tick > earlier.tick ? double(now.time - earlier.time) / double(now.tick - earlier.tick) : 0;
    // What another thread is about to publish may be older than what it has published: leave a moment.
    uint64_t until = now.tick;
    if (!up_to_now && scale > 0) until -= static_cast<uint64_t>(1e6 / scale);
    struct Read {
        Event event;
        uint32_t thread;
    };
    auto take = [&](const Event &event, uint32_t thread) {
        int64_t time = earlier.time + static_cast<int64_t>(double(int64_t(event.time - earlier.tick)) * scale);
        lives.take(event, time, thread);
    };
    static std::vector<Read> &found = *new std::vector<Read>;
    found.clear();
    {
        std::lock_guard<std::mutex> known(registry);
        auto waits = [](Self *self) { return self->queue.waits(); };
        bool alone = std::count_if(selves.begin(), selves.end(), waits) == 1;  // else what several say is put in order
        for (size_t i = 0; i < selves.size();) {
            Queue &queue = selves[i]->queue;
            bool done = queue.done.load(), direct = alone && queue.waits();
            // Of a thread that has ended nothing more can come.
            queue.read(done ? now.tick : until, [&](const Event &event) {
                if (direct) take(event, queue.number);
                else found.push_back({event, queue.number});
            });
            if (done) {
                delete selves[i];
                selves.erase(selves.begin() + static_cast<ptrdiff_t>(i));
            } else i++;
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const Read &a, const Read &b) { return a.event.time < b.event.time; });
    for (const Read &read : found) take(read.event, read.thread);
    lives.settle(up_to_now ? INT64_MAX : now.time - 50000000, last);
    if (now.time - earlier.time > 20000000) earlier = now;
}

// ---------------------------------------------------------------- for the CUDA part

void born_on_cuda(void *where, size_t bytes, int device, bool sized) {
    if (active.load(std::memory_order_relaxed))
        born(where, bytes, c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)), sized ? kAlloc : kBlock);
}
void sized(uint64_t time, void *where, size_t bytes) {
    Self *self = here();
    if (self && active.load(std::memory_order_relaxed)) tell(self, time, kSize, where, bytes, 0, 0, 0);
}
void gone_on_cuda(void *where) {
    if (active.load(std::memory_order_relaxed)) gone(where);
}
Tellers tellers = {born_on_cuda, sized, gone_on_cuda};

#include "torch_recorder_python.h"

}  // namespace

PyMODINIT_FUNC PyInit_tenure_torch_recorder() {
    hold_at_fork({&meeting, &reading, &registry, &naming, chunks.guard()});
    PyObject *made = PyModule_Create(&module);
    PyObject *capsule = PyCapsule_New(&tellers, kTellersCapsule, nullptr);
    if (!made || !capsule || PyModule_AddObject(made, "_tellers", capsule) < 0) return nullptr;
    return made;
}
