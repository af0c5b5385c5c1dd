// Events on their way from the threads that make them to the one that reads: a queue a thread, without locks.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#include <time.h>

namespace tenure {

enum Type : uint8_t { kAlloc, kFree, kUse, kShape, kForeign, kKind, kStep, kScope, kBlock, kSize, kGraph };  // kBlock: its size follows by kSize

struct Event {
    uint64_t time;   // ticks
    uint64_t where;  // the address of the bytes
    uint64_t value;  // bytes, shape, kind, cause, step or scope, as the type says
    uint32_t stack;
    uint16_t op;
    Type type;
    uint8_t flags;  // 1: in backward; the rest is the device
};
constexpr int64_t kScalar = 16;   // bytes of what may be only a number
constexpr uint8_t kSilent = 1;    // of a step: somebody else tells its end
constexpr uint8_t kFoundOut = 1;  // of a free: seen only later, when the address may be another's already
static_assert(sizeof(Event) == 32);

inline int64_t nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

inline uint64_t ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<uint64_t>(nanoseconds());
#endif
}

constexpr uint32_t kChunk = 4096;

struct Chunk {
    std::atomic<uint32_t> count{0};
    std::atomic<Chunk *> next{nullptr};
    Event events[kChunk];
};

class Chunks {  // those that were read and may be filled again
  public:
    Chunk *take() {
        std::lock_guard<std::mutex> lock(guard_);
        made_.fetch_add(1, std::memory_order_relaxed);
        if (free_.empty()) return new Chunk;
        Chunk *chunk = free_.back();
        free_.pop_back();
        chunk->count.store(0, std::memory_order_relaxed);
        chunk->next.store(nullptr, std::memory_order_relaxed);
        return chunk;
    }
    void give(Chunk *chunk) {
        std::lock_guard<std::mutex> lock(guard_);
        made_.fetch_sub(1, std::memory_order_relaxed);
        if (free_.size() < 64) free_.push_back(chunk);
        else delete chunk;
    }
    int in_use() const { return made_.load(std::memory_order_relaxed); }
    std::mutex *guard() { return &guard_; }

  private:
    std::mutex guard_;
    std::vector<Chunk *> free_;
    std::atomic<int> made_{0};
};

// One thread writes, one reads.
class Queue {
  public:
    explicit Queue(Chunks &chunks) : chunks_(chunks), write_(chunks.take()), read_(write_) {}
    ~Queue() {
        while (read_) {
            Chunk *next = read_->next.load();
            chunks_.give(read_);
            read_ = next;
        }
    }

    // Whether a chunk was filled: time to see how far the reader is.
    bool push(const Event &event) {
        uint32_t count = write_->count.load(std::memory_order_relaxed);
        bool full = count == kChunk;
        if (full) {
            Chunk *fresh = chunks_.take();
            write_->next.store(fresh, std::memory_order_release);
            write_ = fresh;
            count = 0;
        }
        write_->events[count] = event;
        __builtin_prefetch(&write_->events[(count + 12) % kChunk], 1);  // the reader's core may have it
        write_->count.store(count + 1, std::memory_order_release);
        return full;
    }

    // Hand out what came before `until`.
    template <class Take>
    void read(uint64_t until, Take take) {
        for (;;) {
            uint32_t count = read_->count.load(std::memory_order_acquire);
            while (at_ < count) {
                const Event &event = read_->events[at_];
                if (event.time > until) return;
                take(event);
                at_++;
            }
            Chunk *next = read_->next.load(std::memory_order_acquire);
            if (at_ < kChunk || !next) return;
            chunks_.give(read_);
            read_ = next;
            at_ = 0;
        }
    }

    // For the reader: whether there is anything.
    bool waits() const { return at_ < read_->count.load(std::memory_order_acquire) || read_->next.load(std::memory_order_acquire); }

    std::atomic<bool> done{false};  // its thread has ended
    uint32_t number = 0;            // the thread's

  private:
    Chunks &chunks_;
    Chunk *write_;
    Chunk *read_;
    uint32_t at_ = 0;
};

}  // namespace tenure
