// Included by torch_recorder.cpp, inside its namespace: storages that others made.

struct Stranger {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    void *where;
};
std::mutex &meeting = *new std::mutex;
std::unordered_map<c10::StorageImpl *, Stranger> &strangers = *new std::unordered_map<c10::StorageImpl *, Stranger>;
std::atomic<uint32_t> generation{1};  // changes when one is forgotten: its address may become another's

// Whether this thread has met it lately; if not, it will have.
inline bool is_known(Self *self, c10::StorageImpl *storage) {
    if (C10_UNLIKELY(self->generation != generation.load(std::memory_order_relaxed))) {
        std::memset(self->strangers, 0, sizeof self->strangers);
        self->generation = generation.load(std::memory_order_relaxed);
    }
    auto &memo = self->strangers[(reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15ULL >> 54];
    return memo == storage || (memo = storage, false);
}

void meet(Self *self, c10::StorageImpl *storage, void *where, uint32_t shape, uint32_t stack) {
    {
        std::lock_guard<std::mutex> lock(meeting);
        auto copy = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
        if (!strangers.try_emplace(storage, Stranger{c10::weak_intrusive_ptr<c10::StorageImpl>(copy), where}).second) return;
    }
    tell(self, ticks(), kForeign, where, storage->nbytes(), stack, self->op, flags(storage->device(), self->node));
    if (shape) tell(self, ticks(), kShape, where, shape, 0, 0, 0);
}

void look_after_strangers() {
    std::vector<void *> ended;
    {
        std::lock_guard<std::mutex> lock(meeting);
        for (auto at = strangers.begin(); at != strangers.end();) {
            if (at->second.storage.expired()) {
                ended.push_back(at->second.where);
                at = strangers.erase(at);
            } else ++at;
        }
        if (!ended.empty()) generation++;
    }
    if (Self *self = here())
        for (void *where : ended) tell(self, ticks(), kFree, where, 0, 0, 0, kFoundOut);
}
