// Included by torch_recorder.cpp, inside its namespace: operations inside of operations.

// How many operations were inside one of this name: of those nothing is told, and to hear them costs.
struct Inner {
    static constexpr uint32_t kMany = 3;  // more than it costs to stop listening, and to begin again
    struct { const char *name; uint32_t count; } known[256] = {};
    uint32_t at = 0, count = 0;
    at::CallbackHandle listener = at::INVALID_CALLBACK_HANDLE;  // this thread's own, in a node
    bool deaf = false;

    void begin(const char *name) {
        at = reinterpret_cast<uintptr_t>(name) >> 4 & 255, count = 0;
        if (known[at].name != name) known[at] = {name, 0};
    }
    void stop_listening() {
        if (known[at].count < kMany) return;
        at::disableCallback(listener);
        deaf = true;
    }
    void end() {
        known[at].count = std::max(known[at].count, count);
        if (!deaf) return;
        at::reenableCallback(listener);
        deaf = false;
    }
};
