// Instruction sets the row kernels are compiled for: AVX-512, AVX2 and, for older machines, plain scalar code. To be included
// before anything of Highway.
#pragma once
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
