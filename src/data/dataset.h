// The interface of a dataset: the samples of a run in training order, a pure function of the options, the seed and the
// index.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/history.h"
#include "data/sample.h"
#include "data/token_cache.h"
#include "data/token_store.h"
#include "text/tokenizer.h"

namespace ravine {

// The data section of a config, and the other facts about the run that datasets use.
struct DatasetOptions : DataOptions {
  std::string tokenizer_path;  // folder whose chat template is used if no template is named
  bool pairs = false;          // records are preference pairs
  uint64_t seed = static_cast<uint64_t>(TrainOptions().seed);
  // Vocabulary of the model: ids must be below it; 0: the tokenizer's.
  int64_t vocabulary = 0;
  int64_t max_positions = 0;                              // positions of the model; 0: no limit
  int threads = 0;                                        // threads for tokenizing; 0: thread_count()
  std::string token_folder;                               // folder of the token cache (data/token_cache.h); empty: none
  std::function<void(const TokenizeProgress&)> progress;  // called on the calling thread while text is tokenized
  int64_t batch = 1, micro_batch = 1;                     // samples of a step; samples of a micro batch
  int64_t rows_at_once = 1;                               // samples of a micro batch, summed over the data ranks
  // The numbers of samples that the run needs; used by the Megatron orders. -1: one epoch.
  int64_t train_samples = 1, valid_samples = -1;
};

// The samples of one or several sources. Const members are thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t sample_count() const = 0;  // samples of an epoch
  // The number of samples in an epoch that hold data. Below sample_count() if some samples are empty (`data.pass_end`).
  virtual int64_t row_count() const { return sample_count(); }
  virtual int64_t columns() const = 0;      // columns of every sample
  virtual int64_t token_count() const = 0;  // tokens of an epoch
  // Returns a sample; index is 0 or more. At sample_count() the next epoch begins, with another shuffle (fixed batch
  // files: in the same order).
  virtual Sample sample(int64_t index) const = 0;
  virtual std::string origin(int64_t index) const = 0;  // the origin of the sample, for messages
  // True if most samples end in padding, of different lengths. Micro batches are then cut to their longest row.
  virtual bool ragged() const { return false; }
  virtual PairSet pairs() const { return {}; }  // the preference pairs of an epoch
  // Adds this dataset to the history of a run: from `step` on, the run takes samples of it.
  virtual void note_sources(DataHistory& history, int64_t step, int64_t global_batch) const {
    history.change(step, global_batch, {}, {});
  }
  // Selects the source of each sample by the history of a run. Called before the first sample is taken. Without this
  // call, the dataset behaves as at the start of a run.
  virtual void follow(const DataHistory&) {}
};

struct Datasets {
  std::unique_ptr<Dataset> train, valid;  // valid: null if there is no validation; it is never shuffled
  std::vector<TokensInUse> tokens;        // if options.token_folder is set: the tokens that save_tokens may write
  std::vector<std::string> notes;         // for the log: what was read, cut and left out; one line each
  std::vector<std::string> warnings;      // likely mistakes; one line each
  std::optional<int32_t> end_token;       // the token that ends answers of conversations; empty without conversations
  // The chat template that rendered conversations, if it is not the tokenizer's; else empty.
  std::string chat_template;
  // Fingerprint of the chat template of data.train; empty without conversations.
  std::optional<uint64_t> chat_fingerprint;
};

}  // namespace ravine
