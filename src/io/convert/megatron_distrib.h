// Reads distrib_optim.pt: f32 masters and both moments of Megatron's distributed optimizer. Data rank 0 gathers them
// into this file, next to model_optim_rng.pt. All parameters of a chunk are in one flat buffer, from the last parameter
// of the model to the first.
//
//   {CHUNK: {TYPES: {"param": T, "exp_avg": T, "exp_avg_sq": T}}}
//   ModelLink on AscendSpeed    T is one tensor; TYPES is the gradients' torch type
//   Megatron 2023 to core 0.6   T is a list of a tensor per bucket; beside the chunks "per_bucket_numel", core 0.5 and
//                               0.6 also "per_bucket_numel_unpadded"; TYPES from core 0.5 on (type of parameters, of
//                               gradients)
//   core 0.7 on                 T is one tensor without the padding of buckets; "buckets_coalesced", and beside T
//                               "numel_unpadded"
//
// Buckets end at multiples of the number of data ranks, from core 0.7 on also of 128. From core 0.8 on each parameter
// begins at a multiple of 64. Source: megatron/core/optimizer/distrib_optimizer.py (get_parameter_state_dp_zero),
// core/distributed/param_and_grad_buffer.py; 2023: megatron/optimizer/distrib_optimizer.py.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/convert/megatron_folder.h"

namespace ravine {

// The layout of parameters in the buffer of a chunk, without the padding of buckets.
struct DistribLayout {
  int64_t alignment = 64;  // each parameter begins at a multiple of it
  int64_t bucket = 0;      // elements at which a bucket is full; 0: one bucket
  bool shared = false;     // a tied embedding has its own bucket
};
// The positions of parameters in the flat buffer of the distributed optimizer; the result of distrib_offsets.
struct DistribOffsets {
  std::vector<int64_t> begin;  // first element of each parameter, in the order of `counts`
  int64_t count = 0;           // elements of the buffer
};
// Returns the positions of the parameters in the flat buffer of the distributed optimizer. `counts` has their numbers
// of elements, in the order of the model; `tied` is the index of the tied embedding, -1: none.
DistribOffsets distrib_offsets(const std::vector<int64_t>& counts, const DistribLayout& layout, int64_t tied = -1);

std::string distrib_file(
    const std::string& rank_file);  // path of distrib_optim.pt next to this model_optim_rng.pt; it may be absent

// Replaces the weights of a rank by the state in its distrib_optim.pt that `kind` selects. Each parameter is checked:
// its first and last masters, rounded to the type of the weights, must equal the weights. A file of another model or
// order, a truncated one, or inconsistent sizes are UserErrors.
void take_from_distrib(MegatronRank& rank, StateKind kind);

}  // namespace ravine
