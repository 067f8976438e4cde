// Who answers prompts that go through the model together. A base and sessions open beside it may share batches
// (Session::beside): the base's model runs, its weights are read once for all rows of a step, and the rows of each prompt go
// through its own adapters besides.
#pragma once
#include <span>

#include "infer/speaker.h"

namespace ravine {

// Rows of a batch, and those of its logit_rows, that belong to one prompt.
struct PromptRows {
  int64_t row = 0, count = 0, logit = 0, logits = 0;  // [row, row + count), [logit, logit + logits)
};

// These rows go through the adapters of `of` where it stands beside `base`, whose model runs. Rows come in order; those of one
// session should lie together.
void add_adapter_rows(Batch& batch, const Session& base, const Session& of, const PromptRows& rows);

class Speakers {
 public:
  // of: the speaker of each prompt. Of sessions that do not share batches no two may be spoken through: an Error.
  Speakers(std::span<const Speaker> all, std::span<const size_t> of);

  const Session& session() const { return *session_; }  // whose model runs: the base of several, or that of the only one
  bool several() const { return several_; }
  size_t at(size_t prompt) const { return of_[prompt]; }
  const GenerateOptions& options(size_t prompt) const { return all_[of_[prompt]].options; }

  const Speaker& speaker(size_t prompt) const { return all_[of_[prompt]]; }

 private:
  std::span<const Speaker> all_;
  std::span<const size_t> of_;
  const Session* session_ = nullptr;
  bool several_ = false;
};

}  // namespace ravine
