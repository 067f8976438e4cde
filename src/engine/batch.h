// One micro batch as the model sees it: all tokens of all sequences after another. Padding, packing, KV cache and prompts of
// different length are this one ragged form.
#pragma once
#include <utility>
#include <vector>

#include "engine/adapters.h"
#include "kernels/kernels.h"

namespace ravine {

// Keys and values of earlier tokens (generation). Lives outside the arena.
class KvCache {
 public:
  virtual ~KvCache() = default;
  // Stores the new rows of a layer where the batch's segments say, and gives all keys and values of that layer. v is absent
  // where the cache keeps one row of a token (latent attention).
  virtual std::pair<TensorView, TensorView> append(int layer, const TensorView& k, const TensorView& v) = 0;
};

class Ctx;

// A loss of whole sequences in place of the sum over labels. The loss head tells it the cross-entropies of the labels, and
// hears from it what each counts in the gradient.
class SequenceLoss {
 public:
  virtual ~SequenceLoss() = default;
  // Host work. losses: f64 [N], 0 where there is no label. weights: f64 [N], the derivatives of the loss by these; absent where
  // no gradient is wanted. Sums go sideways (Ctx::add_sum). On meta neither has data. All tensor ranks call it with the same.
  virtual void weigh(Ctx& c, const TensorView& losses, const TensorView& weights) const = 0;
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
  double grad_scale = 1;          // 1 / valid tokens (or pairs) of the whole step
  double micro_scale = 1;         // 1 / micro batches of the whole step: what a mean over them gives each
  uint32_t step = 0;
  int64_t micro = 0;  // place in the step, over all data ranks, from 0
  KvCache* cache = nullptr;
  std::vector<AdapterRows> adapters;            // by begin; other rows go through the model alone
  const SequenceLoss* sequence_loss = nullptr;  // null: the sum over labels
  int64_t length(size_t segment) const { return lengths.empty() ? segments[segment].k_count : lengths[segment]; }
};

}  // namespace ravine
