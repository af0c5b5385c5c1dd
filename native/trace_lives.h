// Lives from the rows of a trace: who is alive, the bytes alive over time, and what each site made of it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tenure {

constexpr int kDeviceBits = 6, kDevices = 1 << kDeviceBits, kTurn = 12;
constexpr int64_t kNever = INT64_MAX;

struct Life {
    int64_t bytes = 0, born = 0, last_use = 0, ended = kNever;
    uint32_t buffer = 0, batch = 0, last_batch = 0;  // the batches of its first row and of the last one so far
    int32_t site = -1, step = -1, scope = -1;
    int8_t device = 0, kind = -1;
};

// A life through many batches.
struct Long {
    Life life;
    uint32_t process;
};

// The living by number: linear probing over small slots, lives in a pool.
class Living {
  public:
    Living() : slots_(1 << 10, 0) {}
    Life *find(uint32_t buffer) {
        for (size_t at = home(buffer); slots_[at]; at = (at + 1) & mask())
            if (pool_[slots_[at] - 1].buffer == buffer) return &pool_[slots_[at] - 1];
        return nullptr;
    }
    Life &add(uint32_t buffer) {
        if ((count_ + 1) * 2 > slots_.size()) grow();
        uint32_t place;
        if (free_.empty()) pool_.emplace_back(), place = static_cast<uint32_t>(pool_.size());
        else place = free_.back(), free_.pop_back();
        Life &life = pool_[place - 1];
        life = Life{};
        life.buffer = buffer;
        put(place);
        count_++;
        return life;
    }
    void remove(uint32_t buffer) {
        size_t hole = home(buffer);
        while (slots_[hole] && pool_[slots_[hole] - 1].buffer != buffer) hole = (hole + 1) & mask();
        if (!slots_[hole]) return;
        free_.push_back(slots_[hole]);
        count_--;
        for (size_t at = (hole + 1) & mask(); slots_[at]; at = (at + 1) & mask()) {
            size_t wanted = home(pool_[slots_[at] - 1].buffer);
            if (((at - wanted) & mask()) >= ((at - hole) & mask())) slots_[hole] = slots_[at], hole = at;
        }
        slots_[hole] = 0;
    }
    template <class Visit>
    void each(Visit visit) const {
        for (uint32_t place : slots_)
            if (place) visit(pool_[place - 1]);
    }
    size_t size() const { return count_; }

  private:
    size_t mask() const { return slots_.size() - 1; }
    size_t home(uint32_t buffer) const { return buffer * 0x9E3779B97F4A7C15ULL >> 32 & mask(); }
    void put(uint32_t place) {
        size_t at = home(pool_[place - 1].buffer);
        while (slots_[at]) at = (at + 1) & mask();
        slots_[at] = place;
    }
    void grow() {
        std::vector<uint32_t> old(slots_.size() * 2, 0);
        old.swap(slots_);
        for (uint32_t place : old)
            if (place) put(place);
    }
    std::vector<uint32_t> slots_, free_;
    std::vector<Life> pool_;
    size_t count_ = 0;
};

struct Bin {
    int64_t index, most, last, when;  // `when` it was at its most
};

// The bytes alive over time, by device. Changes come nearly in order: they wait until nothing earlier can come.
class Curve {
  public:
    explicit Curve(size_t limit) : limit_(limit) {}
    int64_t level[kDevices] = {}, most[kDevices] = {}, at[kDevices] = {};
    std::vector<Bin> bins[kDevices];
    int shift = 0;
    uint64_t late = 0;

    void add(int64_t time, int64_t change, int device) {
        if (time < settled_) late++, time = settled_;
        waiting_.push_back({time, change * kDevices + device});
    }

    void settle(int64_t until) {
        if (waiting_.empty() || until <= settled_) return;
        size_t left = 0;
        ready_.clear();
        for (const Change &change : waiting_) {
            if (change.time < until) ready_.push_back(change);
            else waiting_[left++] = change;
        }
        waiting_.resize(left);
        sort();
        for (size_t next = 0; next < ready_.size();) {
            int64_t time = ready_[next].time;
            uint64_t touched = 0;
            for (; next < ready_.size() && ready_[next].time == time; next++) {
                int device = static_cast<int>(ready_[next].what & (kDevices - 1));
                level[device] += ready_[next].what >> kDeviceBits;
                touched |= 1ULL << device;
            }
            for (; touched; touched &= touched - 1) tell(__builtin_ctzll(touched), time);
        }
        settled_ = until;
    }

  private:
    struct Change {
        int64_t time, what;
    };

    void tell(int device, int64_t time) {
        int64_t now = level[device];
        if (now > most[device]) most[device] = now, at[device] = time;
        if (!limit_) return;
        auto &all = bins[device];
        int64_t index = time >> shift;
        if (!all.empty() && all.back().index == index) {
            if (now > all.back().most) all.back().most = now, all.back().when = time;
            all.back().last = now;
            return;
        }
        all.push_back({index, now, now, time});
        if (all.size() > limit_) coarsen();
    }

    // Twice as wide, and half as many.
    void coarsen() {
        shift++;
        for (auto &all : bins) {
            size_t kept = 0;
            for (Bin bin : all) {
                bin.index >>= 1;
                if (kept && all[kept - 1].index == bin.index) {
                    if (bin.most > all[kept - 1].most) all[kept - 1].most = bin.most, all[kept - 1].when = bin.when;
                    all[kept - 1].last = bin.last;
                } else {
                    all[kept++] = bin;
                }
            }
            all.resize(kept);
        }
    }

    // By time, in turns of twelve bits; what is in order already stays.
    void sort() {
        int64_t low = kNever, high = INT64_MIN;
        bool sorted = true;
        for (const Change &change : ready_) {
            low = std::min(low, change.time);
            sorted = sorted && change.time >= high;
            high = std::max(high, change.time);
        }
        if (sorted) return;
        other_.resize(ready_.size());
        for (int bit = 0; (high - low) >> bit; bit += kTurn) {
            uint32_t places[1 << kTurn] = {};
            auto part = [&](const Change &change) { return (change.time - low) >> bit & ((1 << kTurn) - 1); };
            for (const Change &change : ready_) places[part(change)]++;
            uint32_t sum = 0;
            for (uint32_t &place : places) {
                uint32_t count = place;
                place = sum;
                sum += count;
            }
            for (const Change &change : ready_) other_[places[part(change)]++] = change;
            ready_.swap(other_);
        }
    }

    size_t limit_;
    int64_t settled_ = INT64_MIN;
    std::vector<Change> waiting_, ready_, other_;
};

struct Site {
    int64_t births = 0, bytes = 0, count = 0, alive = 0, last = 0;  // `last` is when the last was born
    double drag = 0;  // bytes x microseconds
};

// Births less ends by site and by part of the run: 2 ** `shift` steps a part, twice as many when they run out.
class Growth {
  public:
    static constexpr int kParts = 128;
    int shift = 0;
    int32_t last = -1;
    std::vector<int64_t> count, bytes;  // [site][part]

    void add(int32_t site, int32_t step, int64_t change) {
        if (step < 0 || site < 0) return;
        last = std::max(last, step);
        while (step >> shift >= kParts) widen();
        size_t at = static_cast<size_t>(site) * kParts + static_cast<size_t>(step >> shift);
        if (at >= count.size()) {
            size_t need = (static_cast<size_t>(site) + 1) * kParts;
            count.resize(need), bytes.resize(need);
        }
        count[at] += change > 0 ? 1 : -1;
        bytes[at] += change > 0 ? change - 1 : change + 1;
    }

  private:
    void widen() {
        shift++;
        for (auto *all : {&count, &bytes})
            for (size_t row = 0; row < all->size(); row += kParts) {
                auto *parts = all->data() + row;
                for (int part = 0; part < kParts / 2; part++) parts[part] = parts[2 * part] + parts[2 * part + 1];
                std::fill(parts + kParts / 2, parts + kParts, 0);
            }
    }
};

}  // namespace tenure
