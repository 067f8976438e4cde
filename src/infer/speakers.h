// Who answers prompts that go through the model together. A base and sessions open beside it may share batches
// (Session::beside): the base's model runs, its weights are read once for all rows of a step, and the rows of each prompt go
// through its own adapters besides.
#pragma once
#include <span>

#include "infer/speaker.h"

namespace ravine {

class Speakers {
 public:
  // of: the speaker of each prompt. Of sessions that do not share batches no two may be spoken through: an Error.
  Speakers(std::span<const Speaker> all, std::span<const size_t> of);

  const Session& session() const { return *session_; }  // whose model runs: the base of several, or that of the only one
  bool several() const { return several_; }
  size_t at(size_t prompt) const { return of_[prompt]; }
  const GenerateOptions& options(size_t prompt) const { return all_[of_[prompt]].options; }

  // Rows [row, row + count) of the batch, and [logit, logit + logits) of its logit_rows, are of this prompt; rows come in
  // order. Those of one speaker should lie together.
  void add_rows(Batch& batch, size_t prompt, int64_t row, int64_t count, int64_t logit, int64_t logits) const;

 private:
  std::span<const Speaker> all_;
  std::span<const size_t> of_;
  const Session* session_ = nullptr;
  bool several_ = false;
};

}  // namespace ravine
