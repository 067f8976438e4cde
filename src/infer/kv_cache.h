// The KV cache: keys and values of the tokens that the model has seen, per layer and sequence. Its memory is not in the
// arena.
#pragma once
#include <span>
#include <vector>

#include "engine/batch.h"
#include "model/layers/attention.h"

namespace ravine {

// A KV cache with a fixed number of slots of one capacity; each slot holds one sequence. Per layer, K is [slots *
// capacity, widths.keys] and V is [slots * capacity, widths.values]; V is absent if its width is 0. The tokens of slot
// s begin at row s * capacity. A step calls begin_step(), then extend() for each slot with new tokens, then the model
// with segments() in its batch.
class SlotCache : public KvCache {
 public:
  // layers: numbers of the layers that this rank runs; widths: elements of keys and values of a token on this rank;
  // ranks: ranks of this host, which share its memory. Allocates nothing.
  SlotCache(const std::vector<int64_t>& layers, const CacheWidths& widths, DType dtype, int64_t slots, int64_t ranks = 1);

  int64_t slots() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }  // tokens in the slot
  int64_t bytes() const;  // reserved bytes; pages become resident when they are written
  void clear(int64_t slot) { lengths_[static_cast<size_t>(slot)] = 0; }

  // Starts a step: clears the segments of the previous step and makes room for `tokens` tokens in each slot. If more
  // capacity is needed, it at least doubles, up to `most`; the contents are kept. Throws a UserError if the machine
  // does not have the memory.
  void begin_step(int64_t tokens, int64_t most);
  // Assigns rows [q_begin, q_begin + count) of the next batch to a slot: their keys and values continue its sequence.
  // At most one call per slot and step.
  void extend(int64_t slot, int64_t q_begin, int64_t count);
  // Copies the keys and values of slot `from` to slot `to`, in all layers.
  void copy(int64_t from, int64_t to);
  const std::vector<Segment>& segments() const { return segments_; }

  // Copies new keys and values of a layer into the slots that extend() assigned; returns views of the whole K and V of
  // the layer. k and v have the compute type. If the width of V is 0, v and the returned V are absent.
  std::pair<TensorView, TensorView> append(int layer, const TensorView& k, const TensorView& v) override;

 private:
  void grow(int64_t capacity);
  int64_t row_bytes() const { return (widths_.keys + widths_.values) * size_of(dtype_); }  // bytes of a key and a value
  struct Layer {
    Storage k, v;
  };
  // Calls f(storage, bytes of a row) for the K of a layer, and for its V if it is present.
  template <class F>
  void each_part(Layer& layer, F&& f) {
    f(layer.k, widths_.keys * size_of(dtype_));
    if (widths_.values > 0) f(layer.v, widths_.values * size_of(dtype_));
  }
  CacheWidths widths_;
  int64_t capacity_ = 0, ranks_;
  DType dtype_;
  std::vector<Layer> layers_;
  std::vector<int64_t> index_;  // index in layers_ by number of the layer; -1: not on this rank
  std::vector<int64_t> lengths_;
  std::vector<Segment> segments_;
};

}  // namespace ravine
