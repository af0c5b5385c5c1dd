// The recorders' queues under many threads, by themselves, so that every access can be instrumented: `make sanitize` builds
// this with ThreadSanitizer, and with AddressSanitizer and UBSan. It ends with 1 where an event is lost, doubled or late.
#include "queues.h"

#include <cstdio>
#include <thread>

using namespace tenure;

namespace {

constexpr int kThreads = 6;
constexpr int kGenerations = 8;  // of threads: each ends, and its queue is deleted once it has been read
constexpr uint64_t kEvents = 30000;

Chunks &chunks = *new Chunks;  // never destroyed, as in the recorders
std::mutex registry;
std::vector<Queue *> queues;

void fill(uint32_t number) {
    auto *queue = new Queue(chunks);
    queue->number = number;
    {
        std::lock_guard<std::mutex> lock(registry);
        queues.push_back(queue);
    }
    for (uint64_t i = 0; i < kEvents; i++) {
        bool full = queue->push({ticks(), number, i, 0, 0, kUse, 0});
        if (full && chunks.in_use() > 64) std::this_thread::yield();
    }
    queue->done.store(true);
}

struct Reader {
    std::vector<uint64_t> next = std::vector<uint64_t>(kThreads * kGenerations);
    std::vector<uint64_t> time = std::vector<uint64_t>(kThreads * kGenerations);
    int wrong = 0;

    void read() {
        std::lock_guard<std::mutex> lock(registry);
        uint64_t until = ticks();
        for (size_t i = 0; i < queues.size();) {
            Queue *queue = queues[i];
            bool done = queue->done.load();
            queue->read(done ? UINT64_MAX : until, [&](const Event &event) {
                auto number = event.where;
                if (number != queue->number || event.value != next[number] || event.time < time[number]) wrong++;
                next[number] = event.value + 1, time[number] = event.time;
            });
            if (!done) {
                i++;
                continue;
            }
            if (queue->waits()) wrong++;
            delete queue;
            queues.erase(queues.begin() + static_cast<ptrdiff_t>(i));
        }
    }
};

}  // namespace

int main() {
    Reader reader;
    for (int generation = 0; generation < kGenerations; generation++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; i++) threads.emplace_back(fill, static_cast<uint32_t>(generation * kThreads + i));
        for (int i = 0; i < 50; i++) reader.read();
        for (auto &thread : threads) thread.join();
    }
    reader.read();
    for (uint64_t next : reader.next) reader.wrong += next != kEvents;
    std::printf("%d threads, %llu events, %d wrong, %d chunks left\n", kThreads * kGenerations,
                static_cast<unsigned long long>(kEvents * kThreads * kGenerations), reader.wrong, chunks.in_use());
    return reader.wrong || chunks.in_use();
}
