// Continuous batching: sequences join and leave the batch while other sequences are generated. Each step runs the model
// over one ragged batch without padding. The batch has one token of every sequence that generates and, up to a budget,
// the next tokens of prompts whose prefill is not complete. The tokens of a sequence do not depend on the other
// sequences.
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

// The reason why a sequence ended. eos: an end id; length: max_new_tokens or max_length is reached;
// stop: the caller ended it; error: an exception.
enum class Finish : uint8_t { eos, length, stop, error };
std::string_view name(Finish f);

// Returns the largest number of tokens that a prompt and its new tokens may have together by max_new_tokens and
// max_length.
int64_t length_limit(const std::vector<int32_t>& prompt, const GenerateOptions& options);

struct Sequence {
  size_t key = 0;                             // identifies the sequence for the caller
  const PromptModel* prompt_model = nullptr;  // must outlive it
  // Number of the prompt model of this sequence. Rows of one prompt model are adjacent in the batch.
  size_t order = 0;
  uint64_t number = 0;      // number of the prompt; part of the key of its random numbers
  std::string prompt_name;  // name of the prompt in messages: "prompt 3"
  std::vector<int32_t> prompt;
};

struct NewToken {
  size_t key = 0;
  int32_t id = 0;
  // Log-probability of this token by the model itself (natural logarithm), before processing of logits.
  double logprob = 0;
  // The most likely ids at this position with their log-probabilities (GenerateOptions::alternatives). Filled on the
  // deciding rank only.
  std::vector<std::pair<int32_t, double>> best;
  // The reason why the sequence ended: set at its last token (eos or length), else empty; the batcher has then removed
  // the sequence.
  std::optional<Finish> finish;
  // The exception of a sequence that failed: set instead of a token (finish: error), else null. This sequence alone is
  // removed.
  std::exception_ptr failure;
};

// Generates tokens for several sequences at a time with one model (continuous batching). If several ranks run one model
// (infer/model_ranks.h), all ranks make the same calls and get the same results, except for `best`.
class Batcher {
 public:
  // Makes an empty batch. base: the model that runs. Sequences use it, or models loaded by load_on_base() that share
  // its batches. slots: the largest number of sequences at a time; longest: the largest number of tokens of a sequence.
  // shared: step_tokens, recipe and observer of all sequences. base and shared must outlive this object.
  Batcher(const LoadedModel& base, int64_t slots, int64_t longest, const GenerateOptions& shared);

  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  bool idle() const { return active_.empty(); }
  // Adds a sequence to the batch; requires free() > 0. Its prompt must have passed check_prompts (infer/generator.h).
  void admit(Sequence sequence);
  // Runs the model once over all active sequences, and returns their new tokens in the order of the rows. If a sequence
  // fails, for example by NaN in its logits, this sequence alone ends; the tokens of the others do not change. On
  // several ranks, a forward pass that throws is an Error. The batcher then accepts no further call.
  std::vector<NewToken> step();
  void remove(size_t key);           // ends an active sequence
  std::vector<size_t> keys() const;  // keys of the active sequences, in the order of the rows
  const ModelRanks& model_ranks() const { return model_ranks_; }

 private:
  struct Active {
    Sequence of;
    size_t prompt = 0;  // number of tokens of the prompt
    // fed: tokens of the sequence in the cache; limit: largest length of the context; take: tokens to run in this step.
    int64_t slot = 0, fed = 0, limit = 0, take = 0;
    int64_t length = 0;  // length of the context when the model last ran
    int64_t row = -1;    // row of its logits in this step; -1: none
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
