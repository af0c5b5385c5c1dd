// Included by torch_recorder.cpp, inside its namespace: the nodes of autograd's graph.
//
// The engine says around each node what it is, as an operation whose name is a text made for this one time: a quarter of
// all that recording a small step costs. The nodes say it themselves too, for less, but only after their hooks. So where
// there are no hooks, operations are heard only inside of nodes while the engine runs, which is asked at its first node
// to say when it is done. Others who are at work then would not be heard: the caller must be the only one.

constexpr char kNode[] = "autograd::engine::evaluate_function: ";
constexpr size_t kNodeLength = sizeof kNode - 1;

std::atomic<bool> no_hooks{false};   // as Python said after the last step
std::atomic<uint32_t> hearing{0};    // the number of the run whose nodes are heard; 0: all operations are
std::atomic<uint32_t> runs{0};
at::CallbackHandle operations = at::INVALID_CALLBACK_HANDLE, nodes = at::INVALID_CALLBACK_HANDLE;
const at::RecordFunctionCallback &operation_listener();

inline bool in_run() { return torch::autograd::get_current_graph_task_id() >= 0; }

void hear_operations() {
    if (!hearing.exchange(0)) return;
    at::reenableCallback(operations);
    at::disableCallback(nodes);
    if (Self *self = here(); self && self->nodes.empty()) self->node = self->heard = 0;
}

void hear_nodes() {
    if (!no_hooks.load(std::memory_order_relaxed) || hearing.load() || !in_run()) return;
    {
        std::lock_guard<std::mutex> lock(registry);
        auto works = [](Self *self) { return self->outside.load(std::memory_order_relaxed) && !self->queue.done.load(); };
        if (std::count_if(selves.begin(), selves.end(), works) > 1) return;
    }
    at::disableCallback(operations);
    at::reenableCallback(nodes);
    hearing = ++runs;
    torch::autograd::Engine::get_default_engine().queue_callback(hear_operations);
}

// The engine gives word of a node: it is no operation itself.
bool is_node(Self *self, const char *name) {
    // "aten::" and most others differ at the second letter: no need to call.
    if (name[0] != 'a' || name[1] != 'u' || std::strncmp(name, kNode, kNodeLength) != 0) return false;
    self->nodes.push_back(self->node);
    self->node = self->name_by_text(name + kNodeLength);
    note_run(self);
    hear_nodes();
    return true;
}

// A node gives word itself. What hears its operations goes when the engine, after it, puts back what was there before.
std::unique_ptr<at::ObserverContext> on_node(const at::RecordFunction &fn) {
    Self *self = here();
    uint32_t run = hearing.load();
    if (!self || !run || self->depth || !in_run()) return nullptr;
    self->node = self->name_by_text(fn.name());
    self->heard = run;
    note_run(self);
    self->inner.listener = at::addThreadLocalCallback(operation_listener());
    return nullptr;
}

// A run that failed does not say that it is done: nobody is in it, and still only nodes are heard.
inline void look_for_run() {
    if (C10_UNLIKELY(hearing.load(std::memory_order_relaxed) != 0) && !in_run()) hear_operations();
}
