// Keys and values of the tokens that a model has seen, per layer and sequence. Lies outside the arena.
#pragma once
#include <span>
#include <vector>

#include "engine/batch.h"
#include "model/layers/attention.h"

namespace ravine {

// A fixed number of slots, one sequence in each, all of one capacity. Per layer, K and V are [slots * capacity, width], of
// widths of their own (V may have none); the tokens of slot s are rows from s * capacity on. One step: begin_step, extend each
// slot that gets tokens, run the model over a batch with segments().
class SlotCache : public KvCache {
 public:
  // layers: those that are kept, by number; widths: on this rank; ranks: of this host, which share its memory. Nothing is
  // allocated yet.
  SlotCache(const std::vector<int64_t>& layers, const CacheWidths& widths, DType dtype, int64_t slots, int64_t ranks = 1);

  int64_t slots() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }  // tokens in it
  int64_t bytes() const;                                                              // reserved; resident only where written
  void clear(int64_t slot) { lengths_[static_cast<size_t>(slot)] = 0; }

  // Forgets the segments of the step before and makes room for `tokens` per slot: grows to twice the size, but not beyond
  // `most`, keeping what is there. UserError if the machine has not the memory.
  void begin_step(int64_t tokens, int64_t most);
  // Rows [q_begin, q_begin + count) of the coming batch are the next tokens of this slot, one extend per slot and step.
  void extend(int64_t slot, int64_t q_begin, int64_t count);
  // Makes slot `to` hold what slot `from` holds.
  void copy(int64_t from, int64_t to);
  const std::vector<Segment>& segments() const { return segments_; }

  // k, v of the compute type; copies the rows of the segments. Without width of V, v is absent and so is what comes back.
  std::pair<TensorView, TensorView> append(int layer, const TensorView& k, const TensorView& v) override;

 private:
  void grow(int64_t capacity);
  int64_t row_bytes() const { return (widths_.keys + widths_.values) * size_of(dtype_); }  // of both
  struct Layer {
    Storage k, v;
  };
  // f(storage, bytes of a row) of what a layer keeps.
  template <class F>
  void each_part(Layer& layer, F&& f) {
    f(layer.k, widths_.keys * size_of(dtype_));
    if (widths_.values > 0) f(layer.v, widths_.values * size_of(dtype_));
  }
  CacheWidths widths_;
  int64_t capacity_ = 0, ranks_;
  DType dtype_;
  std::vector<Layer> layers_;
  std::vector<int64_t> places_;  // in layers_, by number of the layer; -1: not here
  std::vector<int64_t> lengths_;
  std::vector<Segment> segments_;
};

}  // namespace ravine
