// The ranks that run one model together, as generation uses them. All of them run the same batches; one rank of the
// last stage has the logits and decides.
#pragma once
#include "infer/loaded_model.h"
#include "model/layers/attention.h"

namespace ravine {

class ModelRanks {
 public:
  // `loaded` and `c` must outlive this object.
  ModelRanks(const LoadedModel& loaded, Ctx& c);

  // Runs this rank's blocks of the model forward over `batch`. On ranks with has_logits(), output "logits" of the Ctx
  // is then set.
  void forward(const Batch& batch);
  bool has_logits() const { return loaded_.last_stage(); }
  // True if this rank is the deciding rank, which chooses the next tokens: tensor rank 0 of the last stage. With ZeRO
  // 3, data ranks run the same batches too, and data rank 0 decides.
  bool decides() const;

  // Copies `data` (`bytes` bytes) of the deciding rank to all ranks that run the model. All ranks call it together with
  // an equal number of bytes.
  void share(void* data, int64_t bytes) const;
  std::string share_text(const std::string& text) const;  // returns the text of the deciding rank
  bool any(bool mine) const;                              // true if `mine` is true on any rank
  bool alone() const { return groups_.empty(); }          // one rank runs all of the model
  // Returns the numbers of the layers that this rank runs.
  std::vector<int64_t> layers() const;
  // True if the cached keys of a sequence are invalid after it grows from `before` tokens (0: none) to `now` tokens.
  // The whole sequence must then run again.
  bool invalidates_cache(int64_t before, int64_t now) const;
  // True if the keys of the first tokens differ between a sequence of `before` tokens and one of `now` tokens, because
  // RoPE turns them by another angle.
  bool turns(int64_t before, int64_t now) const;
  CacheWidths cache_widths() const;  // of a token in a layer on this rank

 private:
  const LoadedModel& loaded_;
  Ctx& c_;
  std::vector<BlockRange> parts_;
  Stage stage_;
  std::vector<const Group*> groups_;  // in the order in which share() uses them; empty: one rank
};

}  // namespace ravine
