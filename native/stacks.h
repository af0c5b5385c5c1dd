/* How other native parts take a stack: the function in the capsule `tenure_stacks._capture`. */
#pragma once
#include <stdint.h>
typedef uint32_t (*CaptureStack)(int wait);
#define kCaptureCapsule "tenure_stacks._capture"
