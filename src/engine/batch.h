// One micro batch as the model reads it: the tokens of all sequences, concatenated. This ragged form also covers
// padding, packing, a KV cache and prompts of different lengths.
#pragma once
#include <utility>
#include <vector>

#include "engine/adapters.h"
#include "kernels/kernels.h"

namespace ravine {

// Base class of KV caches: keys and values of earlier tokens of a sequence, for generation. The memory is not in the
// arena.
class KvCache {
 public:
  virtual ~KvCache() = default;
  // Stores the keys and values of new tokens of a layer at the cache rows that the batch's segments name. Returns all
  // keys and values of this layer. v is absent if the cache keeps one row per token (latent attention).
  virtual std::pair<TensorView, TensorView> append(int layer, const TensorView& k, const TensorView& v) = 0;
};

class Ctx;

// Base class of losses over whole sequences (for example DPO), which replace the sum over labels. The loss head passes
// the cross-entropy of each label, and gets back the weight of each in the gradient.
class SequenceLoss {
 public:
  virtual ~SequenceLoss() = default;
  // Computes the weight of each label in the gradient from the losses. Host work. losses: f64 [N], the cross-entropies;
  // 0 at rows without a label. weights: f64 [N], the derivatives of the loss by `losses`; absent if no gradient is
  // needed. Adds its sums with Ctx::add_sum. On the meta device neither has data. All tensor ranks call it, with equal
  // arguments.
  virtual void weigh(Ctx& c, const TensorView& losses, const TensorView& weights) const = 0;
};

struct Batch {
  int64_t tokens = 0;         // N
  TensorView ids, positions;  // i32 [N]
  // The label of each token: i32 [N], the id to predict, already shifted; -100 is ignored. Absent if only logits are
  // needed.
  TensorView labels;
  // i32: the rows whose logits are computed, in a batch without labels; absent: all rows.
  TensorView logit_rows;
  TensorView sequences;  // i64 [N]: global index of the row's sequence, for dropout
  // i32 [N]: index of each row (token) in its sequence, not reset at document borders; for dropout of attention.
  TensorView token_index;
  std::vector<Segment> segments;  // rows outside all segments are padding
  // The length of each segment's sequence, if a sequence is longer than its keys in the cache (a prompt that is read in
  // parts). Empty: the number of keys is the length.
  std::vector<int64_t> lengths;
  int64_t max_position = 0;  // largest position + 1
  double grad_scale = 1;     // 1 / (valid labels, or pairs, of the whole step)
  // 1 / (micro batches of the whole step): the weight of this micro batch in a mean over micro batches.
  double micro_scale = 1;
  uint32_t step = 0;
  int64_t micro = 0;  // index of the micro batch in the step, over all data ranks, from 0
  KvCache* cache = nullptr;
  // The rows that use adapters of another model, sorted by begin. Rows in no entry use the model without adapters.
  std::vector<AdapterRows> adapters;
  const SequenceLoss* sequence_loss = nullptr;  // null: the loss is the sum over labels
  int64_t length(size_t segment) const { return lengths.empty() ? segments[segment].k_count : lengths[segment]; }
};

}  // namespace ravine
