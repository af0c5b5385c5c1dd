// Included by torch_recorder.cpp, inside its namespace: an optimizer's step as one operation. torch tells nobody of what is
// inside, which would be half of all it tells.

// The tensors that torch makes of Python's numbers, and frees again at once, are more than all others there: nothing is
// told of one that is gone before four more were made.
inline void tell_number(Self *self, const Number &number) {
    if (number.where) tell(self, number.time, kAlloc, number.where, number.bytes, self->stack, self->op, flags(c10::Device(c10::kCPU), self->node));
}

inline void hold(Self *self, Number number) {
    Number &place = self->numbers[self->next_number++ & 3];
    tell_number(self, place);
    place = number;
}

inline bool was_held(Self *self, const void *where) {
    for (Number &number : self->numbers)
        if (number.where == where) return number.where = nullptr, true;
    return false;
}

void tell_numbers(Self *self) {
    for (Number &number : self->numbers) tell_number(self, number), number.where = nullptr;
}

void begin_whole(const char *name, const void *arguments) {
    Self *self = here();
    if (!self || self->whole.on || !at::isRecordFunctionEnabled()) return;
    self->whole = {true, self->depth, self->op, self->stack, arguments};
    self->stack = stack_here(self, true);
    self->op = self->name(name);
    self->depth++;
    at::enableRecordFunction(false);
}

bool end_whole() {
    Self *self = here();
    if (!self || !self->whole.on) return false;
    at::enableRecordFunction(true);
    tell_numbers(self);
    self->depth = self->whole.depth, self->op = self->whole.op, self->stack = self->whole.stack;
    self->whole = {};
    return true;
}
