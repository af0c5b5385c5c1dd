// Who was alive at some moments, in layers: each life adds its bytes to a row, from its first moment to its last.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenure {

template <class T>
struct Span {
    T *values;
    size_t size;
};

// For each time the first moment that is not before it; or, with `after`, the first that is after it.
inline std::vector<int32_t> places(Span<const int64_t> moments, Span<const int64_t> times, bool after) {
    std::vector<int32_t> found(times.size);
    const int64_t *end = moments.values + moments.size;
    for (size_t at = 0; at < times.size; at++) {
        int64_t time = times.values[at];
        const int64_t *place = after ? std::upper_bound(moments.values, end, time) : std::lower_bound(moments.values, end, time);
        found[at] = static_cast<int32_t>(place - moments.values);
    }
    return found;
}

// The sums are differences: what is added at `from` is taken away at `to`. A row below zero is nobody's.
inline bool lay(Span<int64_t> sums, int64_t width, Span<const int32_t> rows, Span<const int32_t> from, Span<const int32_t> to, Span<const int64_t> amounts) {
    if (width <= 0 || rows.size != from.size || rows.size != to.size || rows.size != amounts.size) return false;
    for (size_t at = 0; at < rows.size; at++) {
        int32_t begin = from.values[at], end = to.values[at];
        if (rows.values[at] < 0 || begin >= end) continue;
        int64_t base = static_cast<int64_t>(rows.values[at]) * width;
        if (begin < 0 || end >= width || base + width > static_cast<int64_t>(sums.size)) return false;
        sums.values[base + begin] += amounts.values[at];
        sums.values[base + end] -= amounts.values[at];
    }
    return true;
}

}  // namespace tenure
