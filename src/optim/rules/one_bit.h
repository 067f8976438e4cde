// Common part of the 1-bit rules: the mean of a tensor over ranks, sent as one bit per element with error feedback
// (Tang et al. 2021, 1-bit Adam; DeepSpeed's CompressedBackend, deepspeed/runtime/comm/compressed.py), and their first
// step.
#pragma once
#include "comm/group.h"
#include "optim/update_rule.h"

namespace ravine {

// True for the first step: upstream it only allocates memory and drops its gradient.
inline bool changes_nothing(int64_t step) { return step == 1; }

// Returns the padded count of a tensor, so that each rank's part is whole bytes: a multiple of ranks * lcm(ranks, 8).
int64_t padded_count(int64_t count, int ranks);
// Returns the number of worker and server errors (error feedback) that a rank keeps for a tensor of `count` elements.
int64_t error_count(int64_t count, int ranks);

// The memory that compressed_mean needs for a tensor of `count` elements. Every step allocates it, also a step that
// does not compress: all steps then need the same memory.
struct CompressionRoom {
  CompressionRoom(Ctx& c, int64_t count, int ranks, DType type);
  Tensor bits, got, mean, scale, scales;  // empty for one rank
};

// Replaces x [n] by its mean over the group, with two compressions. Each rank adds its error and sends the signs of
// part r to rank r with one scale, |c| / sqrt(N). Rank r computes the mean, adds its own error, and sends signs and a
// scale to all ranks. Padding is included. `errors`: error_count numbers, kept between steps. `padding` (optional):
// values after x, used instead of zeros and replaced too. All ranks of the group call it together. With one rank
// nothing changes. A rank sends, for N padded elements and R ranks:
//   bytes = 2 (R - 1) (N / (8 R) + bytes of a scale)
void compressed_mean(Ctx& c, const Group& group, const CompressionRoom& room, const TensorView& x, const TensorView& errors,
                     const TensorView& padding = {});

// Returns the `count` elements of a contiguous tensor from element `begin` on, as a vector.
TensorView stretch(const TensorView& v, int64_t begin, int64_t count);

}  // namespace ravine
