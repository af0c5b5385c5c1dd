/* How other native parts take a stack: the function in the capsule `tenure_stacks._capture`. */
#pragma once
#include <stdint.h>
typedef uint32_t (*CaptureStack)(int wait);
enum { kOnlyCount = -1 }; /* for `wait`: the stack is known, and only counted */
#define kCaptureCapsule "tenure_stacks._capture"
