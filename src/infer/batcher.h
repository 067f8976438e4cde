// Sequences that come and end while others are at work: continuous batching. They go through the model as one ragged batch,
// without padding: each step feeds one token of every sequence that is writing and, within a budget, the next piece of prompts
// that are still being read. What a sequence says does not depend on what else is in the batch.
#pragma once
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/kv_cache.h"
#include "infer/model_ranks.h"
#include "infer/prompt_model.h"

namespace ravine {

// eos: an end id; length: max_new_tokens or max_length; stop: asked to, from outside; error: something failed.
enum class Finish : uint8_t { eos, length, stop, error };
std::string_view name(Finish f);

// Tokens that the prompt and what follows it may have together.
int64_t length_limit(const std::vector<int32_t>& prompt, const GenerateOptions& options);

struct Sequence {
  size_t key = 0;                             // by which the caller knows it
  const PromptModel* prompt_model = nullptr;  // must outlive it
  size_t order = 0;                           // of prompt models: rows of one lie together
  uint64_t number = 0;                        // by which its draws are keyed
  std::string place;                          // by which messages name it: "prompt 3"
  std::vector<int32_t> prompt;
};

struct NewToken {
  size_t key = 0;
  int32_t id = 0;
  double logprob = 0;                            // that the model itself gives it
  std::vector<std::pair<int32_t, double>> best;  // the likeliest ids with theirs (GenerateOptions::alternatives), where decided
  std::optional<Finish> finish;                  // eos or length: it was the last, and the sequence is gone
  std::exception_ptr failure;  // in place of a token (finish: error): the sequence alone has failed, and is gone
};

// Of several ranks that run one model (infer/model_ranks.h) all do alike and get the same, but for `best`.
class Batcher {
 public:
  // base: whose model runs; sequences run through it or through models loaded beside it that share its batches. slots: sequences at
  // a time; longest: tokens that one may come to; step_tokens, recipe and observer are those of `shared`.
  Batcher(const LoadedModel& base, int64_t slots, int64_t longest, const GenerateOptions& shared);

  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  bool idle() const { return active_.empty(); }
  // Takes a free slot. The prompt must be one that check_prompts (infer/generator.h) lets pass.
  void admit(Sequence sequence);
  // One pass of the model, and the tokens that it gave, in the order of rows. Where a sequence makes the model give NaN, or fails
  // otherwise, it alone ends; the others say what they would without it. Of several ranks a pass that throws is an Error, after
  // which nothing more may be asked.
  std::vector<NewToken> step();
  void remove(size_t key);           // one at work
  std::vector<size_t> keys() const;  // at work, in the order of rows
  const ModelRanks& model_ranks() const { return model_ranks_; }

 private:
  struct Active {
    Sequence of;
    size_t prompt = 0;                               // tokens of the context that the model did not write
    int64_t slot = 0, fed = 0, limit = 0, take = 0;  // take: tokens of it in this step
    int64_t length = 0;                              // of the context when the model last ran
    int64_t row = -1;                                // of its logits in this step; -1: none
    std::vector<int32_t> context;
    const GenerateOptions& options() const { return of.prompt_model->options; }
    int64_t pending() const { return static_cast<int64_t>(context.size()) - fed; }
  };
  struct Choice {
    int32_t id = 0;
    int32_t failed = 0;
    double logprob = 0;
  };

  Ctx::Setup setup();
  void pass(const std::vector<Active*>& all, std::vector<NewToken>& tokens);
  void pass_apart(const std::vector<Active*>& all, std::vector<NewToken>& tokens);
  void forward(const std::vector<Active*>& all);
  std::vector<Choice> choose(const std::vector<const Active*>& of, std::vector<NewToken>& tokens);
  void decide(const std::vector<const Active*>& of, std::vector<Choice>& choices, std::vector<NewToken>& tokens);
  int32_t choose_one(const Active& a, const TensorView& logits, int64_t row) const;
  void retire(Active& a);

  const LoadedModel& loaded_;
  const GenerateOptions& shared_;
  int64_t longest_;
  HeapArena arena_;
  Ctx ctx_;
  ModelRanks model_ranks_;
  SlotCache cache_;
  std::vector<int64_t> free_;
  std::vector<Active> active_;
  Batch batch_;
  std::vector<int32_t> ids_, positions_, logit_rows_;
};

}  // namespace ravine
