// Included by torch_recorder.cpp, inside its namespace: the nodes of autograd's graph.
//
// The engine tells observers around each node what it is, as an operation whose name is a text made for this one time,
// and makes all lists of observers anew, twice: a third of all that recording a small step cost. Where torch calls the
// functions that do so through its table, others stand there while we record: they see the node itself, and where we are
// the only observer, no text is made, and no list that would be the same. Elsewhere the text is read.

using torch::autograd::Node;

constexpr char kNode[] = "autograd::engine::evaluate_function: ";
constexpr size_t kNodeLength = sizeof kNode - 1;
constexpr char kOfTorch[] = "torch::autograd::";
uint16_t accumulate = 0;  // the number of the node that adds to a gradient

// The engine gives word of a node: it is no operation itself.
bool is_node(Self *self, const char *name) {
    // "aten::" and most others differ at the second letter: no need to call.
    if (name[0] != 'a' || name[1] != 'u' || std::strncmp(name, kNode, kNodeLength) != 0) return false;
    self->nodes.push_back(self->node);
    self->node = self->name_by_text(name + kNodeLength);
    note_run(self);
    return true;
}

// A node of the user's has a name of its own; those of torch's go by their class.
uint16_t Self::node_name(Node *node) {
    const std::type_info *type = &typeid(*node);
    auto &memo = nodes_by_type[reinterpret_cast<uintptr_t>(type) >> 4 & 255];
    if (C10_LIKELY(memo.type == type)) return memo.number;
    std::string name = node->name();
    uint16_t number = name_by_text(name.c_str());
    bool of_torch = std::isdigit(static_cast<unsigned char>(name.back())) || name.compare(0, sizeof kOfTorch - 1, kOfTorch) == 0;
    if (of_torch) memo = {type, number};
    return number;
}

using Task = std::shared_ptr<torch::autograd::GraphTask>;
using Ready = std::shared_ptr<torch::autograd::ReadyQueue>;
using Evaluate = void (*)(torch::autograd::Engine *, Task &, Node *, torch::autograd::InputBuffer &, const Ready &);

void evaluate(torch::autograd::Engine *engine, Task &task, Node *node, torch::autograd::InputBuffer &inputs, const Ready &ready);
void observe(at::RecordFunction *function, at::RecordScope scope);
void set_observers(const at::RecordFunctionTLS &wanted);

// By the names that the linker knows them by, which hold the types of their arguments.
Call torchs_own[] = {
    {"_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE", reinterpret_cast<void *>(evaluate)},
    {"_ZN2at14RecordFunctionC1ENS_11RecordScopeE", reinterpret_cast<void *>(observe)},
    {"_ZN2at24set_record_function_tls_ERKNS_17RecordFunctionTLSE", reinterpret_cast<void *>(set_observers)},
};
bool stand_in = false;  // whether ours stand there

void evaluate(torch::autograd::Engine *engine, Task &task, Node *node, torch::autograd::InputBuffer &inputs, const Ready &ready) {
    auto theirs = reinterpret_cast<Evaluate>(torchs_own[0].original);
    Self *self = active.load(std::memory_order_relaxed) ? here() : nullptr;
    if (!self || self->depth) return theirs(engine, task, node, inputs, ready);
    struct Around {
        Self *self;
        uint16_t before;
        ~Around() { self->node = before; }
    } around{self, self->node};
    self->node = self->node_name(node);
    note_run(self);
    // What becomes a gradient may not be read by anything for long: its shape is told now.
    if (self->node == accumulate && inputs.buffer.size() == 1) tell_shape(self, inputs.buffer[0]);
    theirs(engine, task, node, inputs, ready);
}

// What is told with a text: a node, or `detach`, which reads nothing.
void observe(at::RecordFunction *function, at::RecordScope scope) {
    auto theirs = reinterpret_cast<void (*)(at::RecordFunction *, at::RecordScope)>(torchs_own[1].original);
    struct Deaf {
        Self *self;
        ~Deaf() {
            if (self) listen_again(self);
        }
    };
    Self *self = scope == at::RecordScope::FUNCTION ? mine : nullptr;
    Deaf deaf{self && !self->deaf && stop_listening(self) ? self : nullptr};
    theirs(function, scope);
}

// A thread's state is put back: mostly what it was.
void set_observers(const at::RecordFunctionTLS &wanted) {
    const auto &now = at::get_record_function_tls_();
    bool same = wanted.sorted_tls_callbacks_.empty() && now.sorted_tls_callbacks_.empty() && wanted.tls_record_function_enabled_ == now.tls_record_function_enabled_;
    if (!same) reinterpret_cast<void (*)(const at::RecordFunctionTLS &)>(torchs_own[2].original)(wanted);
}

// Whether ours stand there from now on.
bool stand_in_for_torch(bool wanted) {
    const char *kept;
    accumulate = add_name("torch::autograd::AccumulateGrad", kept);
    static bool found = is_on("TENURE_TORCH_CALLS") && find_calls(reinterpret_cast<const char *>(&at::get_record_function_tls_), torchs_own);
    if (found && wanted != stand_in) replace_calls(torchs_own, stand_in = wanted);
    return stand_in;
}
