// The instruction sets of the row kernels: AVX-512, AVX2 and, for older machines, scalar code. Included before any
// header of Highway.
#pragma once
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
