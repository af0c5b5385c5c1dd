// Included by torch_recorder.cpp, inside its namespace: where in the user's Python this thread is.

inline _PyInterpreterFrame *frame_here() {
    PyThreadState *state = PyGILState_GetThisThreadState();
    return state ? top_frame(state) : nullptr;
}

// A node may hold a lock of its own while it works: there, never wait for the GIL, unless Python runs above it and has done so.
inline uint32_t stack_here(Self *self, bool wait) {
    if (self->node) {
        bool noted = self->run.stack && self->run.task == torch::autograd::get_current_graph_task_id();
        if (noted && self->run.frame == frame_here()) return take_stack(kOnlyCount), self->run.stack;
        wait = wait && noted;
    }
    uint32_t stack = take_stack(wait);
    if (stack) last_stack.store(stack, std::memory_order_relaxed);
    else stack = last_stack.load(std::memory_order_relaxed);
    return stack;
}

// Before a node, where it is no harm to wait; outside of a run there is no task, and nothing to note. As long as this frame is the innermost, no Python runs above it.
void note_run(Self *self) {
    int task = torch::autograd::get_current_graph_task_id();
    _PyInterpreterFrame *frame = frame_here();
    if (task >= 0 && frame && (self->run.task != task || self->run.frame != frame)) self->run = {task, frame, take_stack(1)};
}

inline uint32_t place(Self *self) { return self->depth ? self->stack : stack_here(self, false); }
