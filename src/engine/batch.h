// One micro batch as the model sees it: all tokens of all sequences after another. Padding, packing, KV cache and prompts of
// different length are this one ragged form.
#pragma once
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace ravine {

// Keys and values of earlier tokens (generation). Lives outside the arena.
class KvCache {
 public:
  virtual ~KvCache() = default;
  // Stores the new rows of a layer where the batch's segments say, and gives all keys and values of that layer.
  virtual std::pair<TensorView, TensorView> append(int layer, const TensorView& k, const TensorView& v) = 0;
};

struct Batch {
  int64_t tokens = 0;             // N
  TensorView ids, positions;      // i32 [N]
  TensorView labels;              // i32 [N], already shifted, -100 ignored; absent when only logits are wanted
  TensorView logit_rows;          // i32: rows whose logits are wanted when there are no labels; absent: all
  TensorView sequences;           // i64 [N]: global index of the row's sequence (dropout)
  TensorView places;              // i32 [N]: place of the row in its sequence, across documents (dropout of attention)
  std::vector<Segment> segments;  // rows outside every segment are padding
  std::vector<int64_t> lengths;   // of the segments' sequences, where more of them is known than the keys that are here (a
                                  // prompt read in pieces); or empty
  int64_t max_position = 0;       // largest position + 1
  double grad_scale = 1;          // 1 / valid tokens of the whole step
  uint32_t step = 0;
  int64_t micro = 0;  // place in the step, over all data ranks, from 0
  KvCache* cache = nullptr;
  int64_t length(size_t segment) const { return lengths.empty() ? segments[segment].k_count : lengths[segment]; }
};

}  // namespace ravine
