// Beam search over the scores of one prompt, without a model: which beams go on, which are finished, when it is over.
//
// Two sets of rules. transformers: generation/utils.py, _beam_search, of Transformers 5: candidates are the (1 + end ids) *
// beams best (at least twice the beams); of these only the first `beams` may end; hypotheses are worth sum / length^penalty.
// modellink: ModelLink's beam_utils.py (Megatron's): temperature, top-k and top-p act without --sample too; a hypothesis list
// of its own; no early stopping.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "config/choice.h"
#include "infer/generator.h"

namespace ravine {

enum class EarlyStop : uint8_t { no, yes, never };  // never: Transformers' early_stopping="never", the canonical rule
enum class BeamRules : uint8_t { transformers, modellink };
constexpr auto names_of(BeamRules) {
  using enum BeamRules;
  return std::to_array<ValueName<BeamRules>>({{transformers, "transformers"}, {modellink, "modellink"}});
}

struct BeamOptions {
  int64_t beams = 1;
  double length_penalty = 1;
  EarlyStop early_stopping = EarlyStop::no;
  BeamRules rules = BeamRules::transformers;
};

class BeamSearch {
 public:
  // limit: tokens of prompt and continuation together; `prompt_number` and the seed key the draws of options.sample.
  BeamSearch(const BeamOptions& beams, const GenerateOptions& options, const std::vector<int32_t>& prompt, int64_t limit,
             uint64_t prompt_number, int64_t vocabulary);

  int64_t live() const { return static_cast<int64_t>(live_.size()); }
  const std::vector<int32_t>& tokens(int64_t beam) const {
    return live_[static_cast<size_t>(beam)].tokens;
  }  // prompt and continuation
  // A token that may continue a live beam. Plain data: ranks that have no logits are told these.
  struct Candidate {
    int64_t beam = 0;
    int32_t id = 0;
    float score = 0;    // sum so far, with this token
    float logprob = 0;  // of this token, by the model itself
  };
  // The most that weigh() gives.
  int64_t most_candidates() const;
  // The best (or drawn) of all, best first, from the logits of every live beam, [live][V], which are used up. At the first step
  // all live beams are copies of the prompt, whose logits are given once. A number that is not finite is an Error.
  std::vector<Candidate> weigh(std::vector<std::vector<float>> logits) const;
  // One step on, by what weigh() gave.
  void follow(const std::vector<Candidate>& candidates);
  void advance(std::vector<std::vector<float>> logits) { follow(weigh(std::move(logits))); }
  bool first() const { return step_ == 0; }
  // Which live beam of before advance() each one of now continues.
  const std::vector<int64_t>& parents() const { return parents_; }
  bool done() const { return done_; }
  // The best `count`, best first; before done(), what there is by then, live beams included.
  std::vector<Beam> best(int64_t count) const;

 private:
  struct Sequence {
    std::vector<int32_t> tokens;
    float score = 0;     // running: sum of log-probabilities; finished: divided by the length's power
    double logprob = 0;  // of the model itself
    bool finished = false;
  };
  // Log-probabilities of each live beam after processing and with its score added; raw: the model's own.
  void score(std::vector<std::vector<float>>& rows, std::vector<std::vector<float>>& raw) const;
  std::vector<Candidate> best_candidates(const std::vector<std::vector<float>>& rows, int64_t count) const;
  std::vector<Candidate> draw_candidates(const std::vector<std::vector<float>>& rows, int64_t count, double& total) const;
  void follow_transformers(const std::vector<Candidate>& candidates);
  void follow_modellink(const std::vector<Candidate>& candidates);
  Sequence extend(const Candidate& c) const;
  void add_hypothesis(Sequence s, int64_t length);
  bool ends(int32_t id) const;
  double worth(double length) const;  // length^penalty
  const BeamOptions options_;
  const GenerateOptions& generate_;
  size_t prompt_size_;
  int64_t limit_, vocabulary_, step_ = 0;
  uint64_t prompt_number_;
  std::vector<Sequence> live_, finished_;
  std::vector<int64_t> parents_;
  bool improvable_ = true, done_ = false;
};

}  // namespace ravine
