// How the CUDA part reaches the recorder: the functions in the capsule `tenure_torch_recorder._tellers`.
#pragma once
#include <cstddef>
struct Tellers {
    void (*born)(void *where, size_t bytes, int device);  // of a CUDA device
    void (*sized)(void *where, size_t bytes);             // it turned out to be as large as this
    void (*gone)(void *where);
};
#define kTellersCapsule "tenure_torch_recorder._tellers"
