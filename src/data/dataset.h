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

// The settings with which open_datasets() opens the datasets of a run: the data section of the config, and the other
// facts about the run that datasets use.
struct DatasetOptions : DataOptions {
  std::string tokenizer_path;  // folder whose chat template is used if no template is named
  bool pairs = false;          // true: every record is a preference pair, a chosen and a rejected answer
  uint64_t seed = static_cast<uint64_t>(TrainOptions().seed);
  // Size of the model's vocabulary: token ids must be below it. 0: the size of the tokenizer is used.
  int64_t vocabulary = 0;
  int64_t max_positions = 0;                              // largest sequence length of the model; 0: no limit
  int threads = 0;                                        // threads for tokenizing; 0: thread_count()
  std::string token_folder;                               // folder of the token cache (data/token_cache.h); empty: none
  std::function<void(const TokenizeProgress&)> progress;  // called on the calling thread while text is tokenized
  int64_t batch = 1, micro_batch = 1;                     // samples of a step; samples of a micro batch
  int64_t rows_at_once = 1;                               // samples of a micro batch, summed over the data ranks
  // The numbers of samples that the run takes from data.train and data.valid. Only the Megatron orders of data use
  // them. -1: one epoch.
  int64_t train_samples = 1, valid_samples = -1;
};

// The samples of one or several sources. Const members are thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t sample_count() const = 0;  // returns the number of samples in an epoch, empty samples included
  // Returns the number of samples in an epoch that hold data. The number is below sample_count() if data.pass_end fills
  // the last step of an epoch with empty samples.
  virtual int64_t row_count() const { return sample_count(); }
  virtual int64_t columns() const = 0;      // number of columns of every sample: its length in tokens
  virtual int64_t token_count() const = 0;  // number of tokens in an epoch
  // Returns the sample number `index` of the run, from 0, without an upper limit. At each multiple of sample_count() a
  // new epoch begins, with another shuffle. Fixed batch files have the same order in each epoch.
  virtual Sample sample(int64_t index) const = 0;
  // Returns the file and place of the sample's data, as text for messages.
  virtual std::string origin(int64_t index) const = 0;
  // True if most samples end in padding, of different lengths. Micro batches are then cut to their longest row.
  virtual bool ragged() const { return false; }
  virtual PairSet pairs() const { return {}; }  // the preference pairs of an epoch
  // Adds a segment to the history of a run: from `step` on, the run takes `global_batch` samples per step of this
  // dataset.
  virtual void note_sources(DataHistory& history, int64_t step, int64_t global_batch) const {
    history.change(step, global_batch, {}, {});
  }
  // Sets the history of a resumed run, by which a blended dataset selects the source of each sample. Called before the
  // first call of sample(). Without this call, the dataset behaves as in a new run.
  virtual void follow(const DataHistory&) {}
};

// The result of open_datasets(): the datasets of a run.
struct Datasets {
  std::unique_ptr<Dataset> train, valid;  // valid: null if there is no validation; it is never shuffled
  std::vector<TokensInUse> tokens;        // if options.token_folder is set: the tokens that save_tokens may write
  std::vector<std::string> notes;         // lines for the log: the data that was read, cut and dropped
  std::vector<std::string> warnings;      // lines for the log: likely mistakes in the data
  std::optional<int32_t> end_token;       // the token that ends answers of conversations; empty without conversations
  // The text of the chat template that rendered conversations, if it is not the tokenizer's own; else "".
  std::string chat_template;
  // Fingerprint of the chat template of data.train; empty without conversations.
  std::optional<uint64_t> chat_fingerprint;
};

}  // namespace ravine
