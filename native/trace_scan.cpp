// One pass over the rows of a trace. src/tenure/analysis/scan_twin.py does the same in Python, and says what it means.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "trace_lives.h"
#include "trace_layers.h"

#include <cstring>
#include <memory>
#include <string>

namespace tenure {
namespace {

enum Event { kBirth, kUse, kEnd, kKind, kOther, kStep };
constexpr int64_t kLatest = 32503680000000000, kLargest = 1LL << 48;  // as trace/streams.py has them
constexpr uint32_t kLong = 64;                                         // batches
constexpr int32_t kMostSites = 1 << 20;

template <class T>
struct Column {
    const T *values = nullptr;
    const uint8_t *there = nullptr;
    bool has(size_t row) const { return values && (!there || (there[row / 8] >> (row % 8) & 1)); }
};

struct Map {
    const int32_t *numbers = nullptr;
    size_t length = 0;
};

struct Batch {
    uint32_t process, number;
    size_t rows;
    Column<int64_t> time, bytes, last_use;
    Column<uint32_t> buffer;
    Column<int32_t> event, device, site, kind, step, scope;
    Map events, devices, sites, kinds, scopes;
};

class Scan {
  public:
    Scan(size_t bins, int64_t until, bool several) : all(bins), until_(until), several_(several) {}
    Curve all;
    std::vector<std::unique_ptr<Curve>> each;  // by process, if there are several
    std::vector<Living> living;
    std::vector<Site> sites;
    std::vector<Long> longs;
    std::vector<Long> ended;  // since they were last asked for, if that is wanted
    bool collecting = false;
    Growth growth;
    int64_t first = kNever, last = -1, births = 0, bytes = 0;
    std::vector<std::vector<int64_t>> steps;  // when they were done, by process
    const char *wrong = nullptr;

    // The latest time in the batch.
    int64_t feed(const Batch &batch) {
        if (living.size() <= batch.process) living.resize(batch.process + 1);
        if (each.size() <= batch.process) each.resize(batch.process + 1), steps.resize(batch.process + 1);
        auto &one = living[batch.process];
        Curve *own = nullptr;
        if (several_) {
            if (!each[batch.process]) each[batch.process] = std::make_unique<Curve>(0);
            own = each[batch.process].get();
        }
        int64_t high = -1;
        for (size_t row = 0; row < batch.rows && !wrong; row++) {
            int64_t time = batch.time.has(row) ? batch.time.values[row] : 0;
            if (time < 0 || time > kLatest) return wrong = "an impossible time", high;
            high = std::max(high, time);
            first = std::min(first, time);
            int event = word(batch.event, batch.events, row);
            if (event == kStep && until_ == kNever) steps[batch.process].push_back(time);
            if (event < 0 || event >= kOther || !batch.buffer.has(row)) continue;
            uint32_t buffer = batch.buffer.values[row];
            if (event == kBirth) {
                birth(batch, one, own, row, time, buffer);
                continue;
            }
            Life *life = one.find(buffer);
            if (!life) continue;
            if (batch.last_use.has(row)) life->last_use = std::max(life->last_use, batch.last_use.values[row]);
            if (int kind = word(batch.kind, batch.kinds, row); kind >= 0) life->kind = static_cast<int8_t>(kind);
            life->last_batch = batch.number;
            if (event == kEnd) end(batch, one, own, row, time, *life);
        }
        last = std::max(last, high);
        return high;
    }

    void settle(uint32_t process, int64_t own, int64_t until) {
        if (process < each.size() && each[process]) each[process]->settle(own);
        all.settle(until);
    }

    // Those who were alive when a scan begins in the middle.
    void restore(uint32_t process, const Life *lives, size_t count) {
        if (living.size() <= process) living.resize(process + 1);
        for (size_t at = 0; at < count; at++) {
            const Life &life = lives[at];
            if (life.device < 0 || life.device >= kDevices || life.site < -1 || life.site > kMostSites) continue;  // of a damaged file
            living[process].add(life.buffer) = life;
            if (until_ != kNever) continue;
            if (life.site >= 0 && sites.size() <= static_cast<size_t>(life.site)) sites.resize(static_cast<size_t>(life.site) + 1);
            if (life.bytes) all.add(life.born, life.bytes, life.device);
        }
    }

    void finish() {
        for (auto &curve : each)
            if (curve) curve->settle(kNever);
        all.settle(kNever);
    }

  private:
    int word(const Column<int32_t> &column, const Map &map, size_t row) {
        if (!column.has(row)) return -1;
        auto number = static_cast<uint32_t>(column.values[row]);
        if (number >= map.length) return wrong = "a string that is not in the string table", -1;
        return map.numbers[number];
    }

    void birth(const Batch &batch, Living &one, Curve *own, size_t row, int64_t time, uint32_t buffer) {
        if (until_ != kNever && time > until_) return;
        if (one.find(buffer)) one.remove(buffer);
        Life &life = one.add(buffer);
        life.bytes = batch.bytes.has(row) ? batch.bytes.values[row] : 0;
        if (life.bytes < 0 || life.bytes > kLargest) wrong = "an impossible number of bytes", life.bytes = 0;
        life.born = time;
        life.batch = life.last_batch = batch.number;
        life.site = word(batch.site, batch.sites, row);
        life.device = static_cast<int8_t>(std::clamp(word(batch.device, batch.devices, row), 0, kDevices - 1));
        life.kind = static_cast<int8_t>(word(batch.kind, batch.kinds, row));
        life.step = batch.step.has(row) ? batch.step.values[row] : -1;
        life.scope = word(batch.scope, batch.scopes, row);
        if (until_ != kNever) return;
        births++;
        bytes += life.bytes;
        if (life.site >= 0) {
            if (sites.size() <= static_cast<size_t>(life.site)) sites.resize(static_cast<size_t>(life.site) + 1);
            Site &site = sites[static_cast<size_t>(life.site)];
            site.births++, site.count++;
            site.bytes += life.bytes, site.alive += life.bytes;
            site.last = std::max(site.last, time);
        }
        growth.add(life.site, life.step, life.bytes + 1);
        if (life.bytes) change(own, time, life.bytes, life.device);
    }

    void end(const Batch &batch, Living &one, Curve *own, size_t row, int64_t time, Life &life) {
        if (until_ != kNever) {
            if (time <= until_) one.remove(life.buffer);
            else life.ended = time;
            return;
        }
        life.ended = time;
        if (batch.number - life.batch >= kLong) longs.push_back({life, batch.process});
        if (collecting) ended.push_back({life, batch.process});
        if (life.site >= 0) {
            Site &site = sites[static_cast<size_t>(life.site)];
            site.count--, site.alive -= life.bytes;
            site.drag += static_cast<double>(life.bytes) * static_cast<double>(time - std::max(life.last_use, life.born));
        }
        growth.add(life.site, batch.step.has(row) ? batch.step.values[row] : -1, -life.bytes - 1);
        if (life.bytes) change(own, time, -life.bytes, life.device);
        one.remove(life.buffer);
    }

    void change(Curve *own, int64_t time, int64_t bytes, int device) {
        if (own) own->add(time, bytes, device);
        all.add(time, bytes, device);
    }

    int64_t until_;
    bool several_;
};

#include "trace_scan_python.h"

}  // namespace
}  // namespace tenure

PyMODINIT_FUNC PyInit_tenure_trace_scan() { return PyModule_Create(&tenure::module); }
