// What the rules of the 1-bit family share: the mean over ranks of a tensor, sent as one bit per element with error feedback
// (Tang et al. 2021, 1-bit Adam; DeepSpeed's CompressedBackend, deepspeed/runtime/comm/compressed.py), and the step that they
// begin with.
#pragma once
#include "comm/group.h"
#include "optim/update_rule.h"

namespace ravine {

// Their first step sets up memory upstream, and drops its gradient.
inline bool changes_nothing(int64_t step) { return step == 1; }

// Elements of a tensor padded so that each rank's part is whole bytes: a multiple of ranks * lcm(ranks, 8).
int64_t padded_count(int64_t count, int ranks);
// Errors of worker and server: what a rank keeps of a tensor of `count` elements.
int64_t error_count(int64_t count, int ranks);

// Memory for a compression, taken before it is known whether there will be one: a step asks for the same whatever it does.
struct CompressionRoom {
  CompressionRoom(Ctx& c, int64_t count, int ranks, DType type);
  Tensor bits, got, mean, scale, scales;  // one rank: none
};

// x [n] becomes its mean over the group as two compressions leave it: each rank adds its error, sends the signs of part r to
// rank r with one scale, |c| / sqrt(N); that rank takes the mean, adds its own error, and sends signs and a scale to all.
// Padding takes part. `errors`: error_count numbers, kept from step to step. `padding` (optional): what stands behind x, in
// place of zeros, and is replaced too. Bytes that a rank sends, of N padded elements over R ranks:
// 2 (R - 1) (N / (8 R) + the bytes of a scale). One rank: nothing happens.
void compressed_mean(Ctx& c, const Group& group, const CompressionRoom& room, const TensorView& x, const TensorView& errors,
                     const TensorView& padding = {});

// A part of a packed view.
TensorView stretch(const TensorView& v, int64_t begin, int64_t count);

}  // namespace ravine
