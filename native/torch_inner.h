// Included by torch_recorder.cpp, inside its namespace: operations inside of operations.

// How many were inside of one of this name: of those nothing is told, and to hear them costs. Where a thread has its own
// listener, as in autograd's nodes, it stops listening while an operation goes on that has many.
struct Inner {
    static constexpr uint32_t kMany = 3;  // more than it costs to stop, and to begin again
    struct Known {
        const char *name;
        uint32_t count;
    };
    Known known[256] = {}, *now = nullptr;
    uint32_t count = 0;
    at::CallbackHandle listener = at::INVALID_CALLBACK_HANDLE;
    bool deaf = false;

    void begin(const char *name) {
        now = &known[reinterpret_cast<uintptr_t>(name) >> 4 & 255];
        if (now->name != name) *now = {name, 0};
        count = 0;
        deaf = now->count >= kMany;
        if (deaf) at::disableCallback(listener);
    }
    void end() {
        if (deaf) at::reenableCallback(listener);
        else now->count = std::max(now->count, count);
        now = nullptr;
        deaf = false;
    }
};
