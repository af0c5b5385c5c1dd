// What the recorder sees of things that go wrong: memory that could not be had, graphs that reach across steps.
// Included by torch_recorder.cpp, inside its namespace.

PyObject *on_failure = nullptr;

// Memory that could not be had: whoever wants to know is told before the error goes on.
void failed(size_t bytes) {
    if (!active.load(std::memory_order_relaxed) || !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    if (on_failure) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *done = PyObject_CallFunction(on_failure, "n", static_cast<Py_ssize_t>(bytes));
        if (!done) PyErr_WriteUnraisable(on_failure);
        Py_XDECREF(done);
        PyErr_Restore(type, value, trace);
    }
    PyGILState_Release(state);
}

// Graphs that reach from step to step are rare, and what carries them is a fault. Autograd numbers its nodes, so their
// age is known: `loss.item()` after the step reads a graph of that step; one that goes back behind it has been carried on.
std::atomic<uint64_t> step_began{0}, step_before{0};
std::atomic<bool> has_crossed{false};
std::atomic<int> crossed{0};

bool reaches_back(const torch::autograd::Node *node, uint64_t behind) {
    const torch::autograd::Node *queue[64] = {node};
    for (int at = 0, end = 1; at < end; at++) {
        if (queue[at]->sequence_nr() < behind) return true;
        for (const auto &edge : queue[at]->next_edges())
            if (edge.function && end < 64) queue[end++] = edge.function.get();
    }
    return false;
}

inline void look_at_graph(const at::Tensor &tensor) {
    if (has_crossed.load(std::memory_order_relaxed) || !tensor.requires_grad() || tensor.is_leaf() || tensor.is_view()) return;
    const auto &node = tensor.grad_fn();
    if (node && node->sequence_nr() < step_began.load(std::memory_order_relaxed) && reaches_back(node.get(), step_before) && !has_crossed.exchange(true))
        crossed++;
}
