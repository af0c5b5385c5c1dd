// Included by torch_recorder.cpp, inside its namespace.

// An optimizer's step as one operation: torch tells nobody of what is inside, which would be half of all it tells.
void begin_whole(const char *name) {
    Self *self = here();
    if (!self || self->whole.on || !at::isRecordFunctionEnabled()) return;
    self->whole = {true, self->depth, self->op, self->stack};
    self->stack = stack_here(self, true);
    self->op = self->name(name);
    self->depth++;
    at::enableRecordFunction(false);
}

bool end_whole() {
    Self *self = here();
    if (!self || !self->whole.on) return false;
    at::enableRecordFunction(true);
    self->depth = self->whole.depth, self->op = self->whole.op, self->stack = self->whole.stack;
    self->whole = {};
    return true;
}
