// Beam search over the scores of one prompt, without a model: selects the beams to continue and the finished beams.
//
// There are two sets of rules (BeamRules).
// transformers: _beam_search in generation/utils.py of Transformers 5. Candidates are the best (1 + end ids) * beams
// tokens, and at least 2 * beams. Only the first `beams` candidates may end. The score of a hypothesis is sum /
// length^penalty.
// modellink: ModelLink's beam_utils.py (from Megatron). Temperature, top-k and top-p apply without --sample too. There
// is a separate list of hypotheses, and no early stopping.
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
  // Starts a beam search for one prompt. limit: the largest number of tokens of prompt and continuation together.
  // prompt_number, with the seed, is the key of the draws of options.sample. `options` must outlive this object.
  BeamSearch(const BeamOptions& beams, const GenerateOptions& options, const std::vector<int32_t>& prompt, int64_t limit,
             uint64_t prompt_number, int64_t vocabulary);

  int64_t live() const { return static_cast<int64_t>(live_.size()); }
  // Returns the tokens of live beam number `beam`: prompt and continuation.
  const std::vector<int32_t>& tokens(int64_t beam) const { return live_[static_cast<size_t>(beam)].tokens; }
  // A token that may continue a live beam, with its scores. Plain data: it is sent to ranks that have no logits.
  struct Candidate {
    int64_t beam = 0;
    int32_t id = 0;
    float score = 0;    // log-probability of the beam with this token
    float logprob = 0;  // log-probability of this token by the model itself
  };
  // Returns the largest possible number of candidates in a result of weigh().
  int64_t most_candidates() const;
  // Scores the next tokens of all live beams. Returns the best (or, if options.sample, drawn) candidates, best first.
  // logits: [live][V]. At the first step all live beams are copies of the prompt, so logits is [1][V]. A logit that is
  // not finite is an Error.
  std::vector<Candidate> weigh(std::vector<std::vector<float>> logits) const;
  // Runs one step of the search: continues the live beams with the candidates of weigh(), and stores finished beams.
  void follow(const std::vector<Candidate>& candidates);
  void advance(std::vector<std::vector<float>> logits) { follow(weigh(std::move(logits))); }
  bool first() const { return step_ == 0; }
  // Returns the parents of the live beams: for each one, the index among the live beams before the last step of the
  // beam that it continues.
  const std::vector<int64_t>& parents() const { return parents_; }
  bool done() const { return done_; }
  // Returns the best `count` beams of the search, best first. Before done(), live beams are included.
  std::vector<Beam> best(int64_t count) const;

 private:
  struct Sequence {
    std::vector<int32_t> tokens;
    // Running beam: the sum of log-probabilities. Finished beam: sum / length^penalty.
    float score = 0;
    double logprob = 0;  // sum of log-probabilities by the model itself
    bool finished = false;
  };
  // Replaces each row by the processed log-probabilities of its live beam plus the score of the beam.
  // raw: the log-probabilities of the model itself.
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
