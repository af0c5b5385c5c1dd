// Locks across fork. A lock that another thread holds when the process forks stays locked in the child for ever, and what
// it guards may be half changed. So the thread that forks takes all of them first, and both processes give them back.
//
// Each library has its own: nothing here is shared between them.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace {

std::vector<std::mutex *> &fork_locks = *new std::vector<std::mutex *>;
bool is_forked_child = false;

// Once, with the locks in the order in which they are taken inside each other. None is held while waiting for the GIL.
void hold_at_fork(std::initializer_list<std::mutex *> locks) {
    if (!fork_locks.empty()) return;
    fork_locks.assign(locks);
    auto release = [] { std::for_each(fork_locks.rbegin(), fork_locks.rend(), [](std::mutex *lock) { lock->unlock(); }); };
    static void (*give_back)() = release;
    pthread_atfork([] { for (std::mutex *lock : fork_locks) lock->lock(); }, [] { give_back(); }, [] { is_forked_child = true, give_back(); });
}

}  // namespace
