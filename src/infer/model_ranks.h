// The ranks that run one model together, as generation sees them: all of them run the same batches, one has the logits and
// decides.
#pragma once
#include "infer/loaded_model.h"
#include "model/layers/attention.h"

namespace ravine {

class ModelRanks {
 public:
  // Both must outlive it.
  ModelRanks(const LoadedModel& loaded, Ctx& c);

  // Runs this rank's blocks of `batch`. Output "logits" comes out where has_logits().
  void forward(const Batch& batch);
  bool has_logits() const { return loaded_.last_stage(); }
  // One rank of a model; with ZeRO 3 data ranks run the same batches too, and the first of them decides.
  bool decides() const;

  // What the deciding rank has in `data`, to all. All ranks call it with as many bytes.
  void share(void* data, int64_t bytes) const;
  std::string share_text(const std::string& text) const;  // of the deciding rank
  bool any(bool mine) const;                              // on any rank
  bool alone() const { return groups_.empty(); }          // one rank runs all of the model
  // Of the layers of the model those that this rank runs.
  std::vector<int64_t> layers() const;
  // Whether cached keys of a sequence that had `before` tokens (0: none) are void now that it has `now`: all of it is run
  // again.
  bool invalidates_cache(int64_t before, int64_t now) const;
  // Whether its first tokens have other keys in a sequence of `now` tokens than in one of `before`.
  bool turns(int64_t before, int64_t now) const;
  CacheWidths cache_widths() const;  // of a token in a layer on this rank

 private:
  const LoadedModel& loaded_;
  Ctx& c_;
  std::vector<BlockRange> parts_;
  Stage stage_;
  std::vector<const Group*> groups_;  // in the order in which news travels; none: alone
};

}  // namespace ravine
