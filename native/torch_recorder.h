// How the CUDA part reaches the recorder: the functions in the capsule `tenure_torch_recorder._tellers`.
#pragma once
#include <cstddef>
#include <cstdint>
struct Tellers {
    void (*born)(void *where, size_t bytes, int device, bool sized);  // of a CUDA device; if not, `sized` follows
    void (*sized)(uint64_t time, void *where, size_t bytes);  // in ticks
    void (*gone)(void *where);
};
#define kTellersCapsule "tenure_torch_recorder._tellers"
