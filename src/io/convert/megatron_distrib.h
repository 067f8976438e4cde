// distrib_optim.pt: f32 masters and both moments of Megatron's distributed optimizer, which rank 0 of the data ranks has gathered
// beside model_optim_rng.pt. All parameters of a chunk lie flat in a buffer, from the last of the model to the first.
//
//   {CHUNK: {TYPES: {"param": T, "exp_avg": T, "exp_avg_sq": T}}}
//   ModelLink on AscendSpeed    T is one tensor; TYPES is the gradients' torch type
//   Megatron 2023 to core 0.6   T is a list of a tensor per bucket; beside the chunks "per_bucket_numel", core 0.5 and 0.6 also
//                               "per_bucket_numel_unpadded"; TYPES from core 0.5 on (type of parameters, of gradients)
//   core 0.7 on                 T is one tensor without what pads buckets; "buckets_coalesced", and beside T "numel_unpadded"
//
// Buckets end at multiples of the data ranks, from core 0.7 on of 128 too; from core 0.8 on each parameter begins at a multiple of 64.
// Source: megatron/core/optimizer/distrib_optimizer.py (get_parameter_state_dp_zero), core/distributed/param_and_grad_buffer.py;
// 2023: megatron/optimizer/distrib_optimizer.py.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/convert/megatron_folder.h"

namespace ravine {

// Where parameters lie in the buffer of a chunk, less what pads its buckets.
struct DistribLayout {
  int64_t alignment = 64;  // each parameter begins at a multiple of it
  int64_t bucket = 0;      // elements with which a bucket is full; 0: all are in one
  bool shared = false;     // a tied embedding has a bucket of its own
};
struct DistribPlaces {
  std::vector<int64_t> begin;  // of each parameter, in the order of `counts`
  int64_t count = 0;           // elements of the buffer
};
// counts: elements of the parameters in the order of the model; tied: which of them is the tied embedding; -1: none.
DistribPlaces distrib_places(const std::vector<int64_t>& counts, const DistribLayout& layout, int64_t tied = -1);

std::string distrib_file(const std::string& rank_file);  // beside model_optim_rng.pt; it need not be there

// Puts its state in the place of the weights. That masters, rounded to the type of the weights, are the weights is looked at in
// each parameter: a file of another model or order is a UserError, as is one that is cut, or says sizes that do not add up.
void take_from_distrib(MegatronRank& rank, StateKind kind);

}  // namespace ravine
