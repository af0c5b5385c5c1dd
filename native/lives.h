// From events to rows: which buffer lies at an address now, what happened to it, and what of that is to be written.
#pragma once
#include "columns.h"
#include "queues.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace tenure {

// Kinds and causes go by the places of their names in the Python that reads them; 0 is none.
enum Kind : uint8_t { kNone, kParameter, kGradient, kState, kActivation, kInput };

struct Buffer {
    uint64_t where = 0;
    uint32_t number = 0;
    int64_t bytes = 0;
    int64_t born = 0;
    int64_t last_use = 0;
    uint32_t stack = 0, last_stack = 0;
    uint32_t uses = 0, told_uses = 0;
    uint32_t shape = 0;
    int32_t step = 0, last_step = 0;
    uint16_t op = 0, last_op = 0;
    uint32_t scope = 0, thread = 0;
    uint8_t device = 0;
    uint8_t kind = 0;
    bool shared() const { return foreign || kind; }
    bool in_backward = false, foreign = false, written = false, touched = false, sized = true, shaped = false;
};

// Buffers by address: linear probing, and what follows a removed one moves up.
class Table {
  public:
    Table() : slots_(1 << 12) {}

    Buffer *find(uint64_t where) {
        for (size_t at = home(where); slots_[at].where; at = (at + 1) & mask())
            if (slots_[at].where == where) return &slots_[at];
        return nullptr;
    }
    Buffer &add(uint64_t where) {
        if ((count_ + 1) * 2 > slots_.size()) grow();
        count_++;
        size_t at = home(where);
        while (slots_[at].where) at = (at + 1) & mask();
        slots_[at] = Buffer{};
        slots_[at].where = where;
        return slots_[at];
    }
    void remove(Buffer *gone) {
        size_t hole = static_cast<size_t>(gone - slots_.data());
        count_--;
        for (size_t at = (hole + 1) & mask(); slots_[at].where; at = (at + 1) & mask()) {
            size_t wanted = home(slots_[at].where);
            if (((at - wanted) & mask()) >= ((at - hole) & mask())) {
                slots_[hole] = slots_[at];
                hole = at;
            }
        }
        slots_[hole].where = 0;
    }
    template <class Visit>
    void each(Visit visit) {
        for (auto &buffer : slots_)
            if (buffer.where) visit(buffer);
    }
    void clear() { std::fill(slots_.begin(), slots_.end(), Buffer{}), count_ = 0; }

  private:
    size_t mask() const { return slots_.size() - 1; }
    size_t home(uint64_t where) const { return (where >> 4) * 0x9E3779B97F4A7C15ULL >> 24 & mask(); }
    void grow() {
        std::vector<Buffer> old(slots_.size() * 2);
        old.swap(slots_);
        for (auto &buffer : old) {
            if (!buffer.where) continue;
            size_t at = home(buffer.where);
            while (slots_[at].where) at = (at + 1) & mask();
            slots_[at] = buffer;
        }
    }
    std::vector<Buffer> slots_;
    size_t count_ = 0;
};

enum Row : uint8_t { kBirth = 1, kUses = 2, kEnd = 3, kStepDone = 4 };

class Lives {
  public:
    Rows rows;
    uint64_t births = 0, uses = 0, ends = 0;

    void take(const Event &event, int64_t time, uint32_t thread) {
        switch (event.type) {
            case kAlloc:
            case kBlock: return birth(event, time, thread, false);
            case kForeign:
                if (!table_.find(event.where)) birth(event, time, thread, true);
                return;
            case kFree: return end(event, time, thread);
            case kUse: return use(event, time);
            case kShape:
                if (Buffer *buffer = table_.find(event.where); buffer && !buffer->shape) buffer->shape = static_cast<uint32_t>(event.value);
                return;
            case kKind:
                if (Buffer *buffer = table_.find(event.where)) buffer->kind = static_cast<uint8_t>(event.value), touch(*buffer);
                return;
            case kSize:
                if (Buffer *buffer = table_.find(event.where)) buffer->bytes = static_cast<int64_t>(event.value), buffer->sized = true;
                return;
            case kStep:
                if (event.flags != kSilent) {
                    row(kStepDone, time, Buffer{});
                    rows.device.back() = 0;
                    rows.thread.back() = static_cast<int32_t>(thread + 1);
                }
                step_ = static_cast<int32_t>(event.value);
                return;
            case kGraph: graphs_.insert(event.stack); return;
            case kScope:
                if (scopes_.size() <= thread) scopes_.resize(thread + 1u);
                scopes_[thread] = static_cast<uint32_t>(event.value);
                return;
        }
    }

    // Write what is known of the living: births that have waited for their shape, and new uses. One whose size is not
    // known waits to the `last` time.
    void settle(int64_t older_than, bool last) {
        std::vector<uint64_t> touched;
        touched.swap(touched_);
        for (uint64_t where : touched) {
            Buffer *buffer = table_.find(where);
            if (!buffer || !buffer->touched) continue;
            if (!buffer->written && ((!buffer->shape && buffer->born > older_than) || (!buffer->sized && !last))) {
                touched_.push_back(where);
                continue;
            }
            buffer->touched = false;
            if (!buffer->written) write_birth(*buffer);
            if (buffer->uses > buffer->told_uses) {
                row(kUses, buffer->last_use, *buffer);
                rows.step.back() = buffer->last_step;
                tell_shape(*buffer);
                buffer->told_uses = buffer->uses;
            }
        }
    }

    // The living that were born at one stack, in sum; of the steps they were born in, one bit each, by 64.
    struct Crowd {
        int64_t count = 0, bytes = 0, last_use = 0;
        uint64_t steps = 0;
    };
    std::unordered_map<uint32_t, Crowd> crowds() {
        std::unordered_map<uint32_t, Crowd> found;
        table_.each([&](Buffer &buffer) {
            if (!buffer.stack || is_nobodys(buffer)) return;
            Crowd &crowd = found[buffer.stack];
            crowd.count++;
            crowd.bytes += buffer.bytes;
            crowd.last_use = std::max(crowd.last_use, buffer.last_use);
            crowd.steps |= uint64_t(1) << (buffer.step & 63);
        });
        return found;
    }

    // The addresses of those, the oldest first.
    std::vector<int64_t> members(const std::vector<uint32_t> &stacks) {
        std::vector<std::pair<uint32_t, int64_t>> found;
        table_.each([&](Buffer &buffer) {
            if (std::find(stacks.begin(), stacks.end(), buffer.stack) != stacks.end() && !is_nobodys(buffer))
                found.push_back({buffer.number, static_cast<int64_t>(buffer.where)});
        });
        std::sort(found.begin(), found.end());
        std::vector<int64_t> where;
        for (auto &[number, address] : found) where.push_back(address);
        return where;
    }

    // The stacks whose operations added nodes to an autograd graph.
    std::vector<int64_t> graphs() const { return {graphs_.begin(), graphs_.end()}; }

    int64_t alive(int device) {
        int64_t sum = 0;
        table_.each([&](Buffer &buffer) { sum += buffer.device == device ? buffer.bytes : 0; });
        return sum;
    }

    void clear() {
        table_.clear();
        touched_.clear();
        scopes_.clear();
        graphs_.clear();
        step_ = 0;
        rows = Rows{};
    }

  private:
    void birth(const Event &event, int64_t time, uint32_t thread, bool foreign) {
        if (Buffer *old = table_.find(event.where)) {  // its end is still on the way from another thread
            write_end(*old, time, 0, 0, thread);
            table_.remove(old);
        }
        births++;
        Buffer &buffer = table_.add(event.where);
        buffer.number = ++last_;
        buffer.bytes = static_cast<int64_t>(event.value);
        buffer.born = time;
        buffer.stack = event.stack;
        buffer.op = event.op;
        buffer.thread = thread;
        buffer.step = step_;
        buffer.scope = thread < scopes_.size() ? scopes_[thread] : 0;
        buffer.device = event.flags >> 1;
        buffer.in_backward = event.flags & 1;
        buffer.foreign = foreign;
        buffer.kind = foreign ? kInput : kNone;
        buffer.sized = event.type != kBlock;
        touch(buffer);
    }

    void use(const Event &event, int64_t time) {
        Buffer *buffer = table_.find(event.where);
        if (!buffer) return;
        uses++;
        buffer->uses++;
        buffer->last_use = time;
        buffer->last_step = step_;
        buffer->last_op = event.op;
        buffer->last_stack = event.stack;
        if (!buffer->shape) buffer->shape = static_cast<uint32_t>(event.value);
        if ((event.flags & 1) && !buffer->in_backward && buffer->kind == kNone) buffer->kind = kActivation;
        touch(*buffer);
    }

    void end(const Event &event, int64_t time, uint32_t thread) {
        Buffer *buffer = table_.find(event.where);
        if (!buffer || buffer->born > time || ((event.flags & kFoundOut) && !buffer->foreign)) return;
        ends++;
        if (is_nobodys(*buffer)) return table_.remove(buffer);
        write_end(*buffer, time, event.stack, static_cast<int32_t>(event.value), thread);
        table_.remove(buffer);
    }

    // The scalars that torch makes of Python numbers, and frees again inside one operation: half of all births in an
    // optimizer's loop, and never a tensor of anybody's.
    static bool is_nobodys(const Buffer &buffer) {
        return buffer.bytes <= kScalar && !buffer.written && !buffer.shared() && (buffer.uses == 0 || buffer.op == 0);
    }

    void touch(Buffer &buffer) {
        if (!buffer.touched) buffer.touched = true, touched_.push_back(buffer.where);
    }

    void write_birth(Buffer &buffer) {
        buffer.written = true;
        row(kBirth, buffer.born, buffer);
        rows.op.back() = buffer.op;
        rows.stack.back() = static_cast<int32_t>(buffer.stack);
        tell_shape(buffer);
        rows.thread.back() = static_cast<int32_t>(buffer.thread + 1);
        rows.scope.back() = static_cast<int32_t>(buffer.scope);
        rows.step.back() = buffer.step;
        rows.uses.back() = 0;
        rows.last_use.back() = rows.last_op.back() = rows.last_stack.back() = 0;
    }

    void write_end(Buffer &buffer, int64_t time, uint32_t stack, int32_t cause, uint32_t thread) {
        if (!buffer.written) write_birth(buffer);
        row(kEnd, time, buffer);
        rows.stack.back() = static_cast<int32_t>(stack);
        rows.cause.back() = cause + 1;
        rows.thread.back() = static_cast<int32_t>(thread + 1);
        tell_shape(buffer);
    }

    // Once: with the birth, or, where the operation that gave it a shape took longer than a birth waits, with what comes next.
    void tell_shape(Buffer &buffer) {
        if (buffer.shaped || !buffer.shape) return;
        buffer.shaped = true;
        rows.shape.back() = static_cast<int32_t>(buffer.shape);
    }

    void row(Row event, int64_t time, const Buffer &buffer) {
        rows.time.push_back(time);
        rows.event.push_back(event);
        rows.buffer.push_back(buffer.number);
        rows.bytes.push_back(buffer.bytes);
        rows.device.push_back(buffer.device + 1);
        rows.kind.push_back(buffer.kind);
        rows.step.push_back(step_);
        rows.uses.push_back(buffer.uses);
        rows.last_use.push_back(buffer.last_use);
        rows.last_op.push_back(buffer.last_op);
        rows.last_stack.push_back(static_cast<int32_t>(buffer.last_stack));
        for (auto *column : {&rows.shape, &rows.op, &rows.stack, &rows.thread, &rows.scope, &rows.cause}) column->push_back(0);
    }

    Table table_;
    std::vector<uint64_t> touched_;
    std::vector<uint32_t> scopes_;
    std::unordered_set<uint32_t> graphs_;
    uint32_t last_ = 0;
    int32_t step_ = 0;
};

}  // namespace tenure
