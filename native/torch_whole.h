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

bool end_whole();

// An optimizer's step that failed is over though somebody keeps the error, and with it the arguments: who called it has gone.
inline void look_for_whole(Self *self) {
    if (C10_LIKELY(!self->whole.on)) return;
    for (_PyInterpreterFrame *frame = frame_here(); frame; frame = frame->previous)
        if (frame == self->whole.caller.frame && frame_code(frame) == self->whole.caller.code) return;
    end_whole();
}

// With the GIL, called from a Python function that runs before the step, so many (`up`) calls below what steps.
void begin_whole(const char *name, const void *arguments, int up) {
    Self *self = here();
    if (!self) return;
    _PyInterpreterFrame *frame = frame_here();
    for (; frame && up; up--) {
        do frame = frame->previous;
        while (frame && !frame_code(frame));
    }
    if (self->whole.on && self->whole.caller.frame == frame) end_whole();
    look_for_whole(self);
    if (is_forked_child) return;  // torch's switch takes a lock that a thread of the parent may have held
    if (!frame || self->whole.on || !at::isRecordFunctionEnabled() || others_listen()) return;
    self->whole = {true, self->depth, self->op, self->stack, arguments, {frame, frame_code(frame)}};
    self->stack = stack_here(self, true);
    self->op = self->name(name);
    self->depth++;
    at::enableRecordFunction(false);
}

bool end_whole() {
    Self *self = here();
    if (!self || !self->whole.on) return false;
    if (!is_forked_child) at::enableRecordFunction(true);
    tell_numbers(self);
    self->depth = self->whole.depth, self->op = self->whole.op, self->stack = self->whole.stack;
    self->whole = {};
    return true;
}
