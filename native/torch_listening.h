// Included by torch_recorder.cpp, inside its namespace: what this thread's operations are told to.
//
// Of operations inside of others nothing is recorded, and to be told of them costs as much as to be told of the others.
// torch's own switches make all its lists anew, which costs more than three tellings; so the list that it looks into
// before each operation of a thread is emptied while one goes on, if only we are in it, and filled again. torch makes the
// list anew whenever callbacks come or go, or a thread's state is put back: then it is whole, and left so.

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction &fn);
void on_end(const at::RecordFunction &, at::ObserverContext *);
constexpr Listeners::StartEndPair own = {on_start, on_end};

// How far behind the thread's other state of observers its list for operations lies; 0 where it was not found.
size_t listeners_at = 0;

inline const char *observers_here() { return reinterpret_cast<const char *>(&at::get_record_function_tls_()); }

inline Listeners *listeners_here() {
    return listeners_at ? reinterpret_cast<Listeners *>(const_cast<char *>(observers_here()) + listeners_at) : nullptr;
}

inline bool only_we(const Listeners &list) {
    return list.callbacks_.size() == 1 && list.callbacks_[0].start_ == own.start_ && list.callbacks_[0].end_ == own.end_;
}

// Right after our callback was added; if others observe just then, it is tried again with the next recording. No header
// says where the list is, so it is looked for by what is in it, and used only if torch is seen to follow it.
void find_listeners() {
    constexpr size_t kNear = 512;  // bytes; what torch keeps behind its lists is far larger
    auto heard = [] { return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value(); };
    if (listeners_at || !is_on("TENURE_TORCH_LISTS") || !heard()) return;
    const char *start = observers_here();
    // Only what is torch's own data of this thread is looked into.
    const Library torchs(reinterpret_cast<const void *>(&at::get_record_function_tls_));
    if (start < torchs.own || start >= torchs.own + torchs.own_size) return;
    const size_t rest = static_cast<size_t>(torchs.own + torchs.own_size - start);
    for (size_t at = sizeof(at::RecordFunctionTLS); at < kNear && at + sizeof(Listeners) <= rest; at += sizeof(void *)) {
        auto *list = reinterpret_cast<Listeners *>(const_cast<char *>(start) + at);
        // A list this short is kept in itself, so that it begins by pointing there.
        void *inside;
        std::memcpy(&inside, list, sizeof inside);
        if (inside <= list || inside >= list + 1 || !only_we(*list) || list->thread_id_ != at::RecordFunction::currentThreadId()) continue;
        list->callbacks_.clear();
        bool follows = !heard();
        list->callbacks_.push_back(own);
        if (follows && heard()) listeners_at = at;
        return;
    }
}

// Whether there was nobody else, so that this thread is not told any more.
inline bool stop_listening(Self *self) {
    if (!self->listeners && !(self->listeners = listeners_here())) return false;
    if (!only_we(*self->listeners)) return false;
    self->listeners->callbacks_.clear();
    return true;
}

// Unless torch has made the list anew meanwhile, for nobody: it wants no inputs then.
inline void listen_again(Self *self) {
    if (self->listeners->empty() && self->listeners->needs_inputs_ && active.load(std::memory_order_relaxed)) self->listeners->callbacks_.push_back(own);
}

// Whether somebody else observes this thread's operations now.
inline bool others_listen() {
    auto now = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
    return now && !only_we(*now);
}
