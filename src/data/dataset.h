// The samples of a run, in training order: a pure function of the options, the seed and the index.
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

// The data section of a config, and what else a run knows of its data.
struct DatasetOptions : DataOptions {
  std::string tokenizer_path;  // folder whose chat template is used when none is named
  bool pairs = false;          // records are preference pairs
  uint64_t seed = static_cast<uint64_t>(TrainOptions().seed);
  int64_t vocabulary = 0;                                 // of the model; ids must be below it. 0: the tokenizer's
  int64_t max_positions = 0;                              // of the model; 0: no limit
  int threads = 0;                                        // for tokenizing; 0: the cores of this machine
  std::string token_folder;                               // to find tokens in (data/token_cache.h); empty: none
  std::function<void(const TokenizeProgress&)> progress;  // called on the calling thread while text is tokenized
  int64_t batch = 1, micro_batch = 1;                     // samples of a step, of a micro batch
  int64_t rows_at_once = 1;                               // of a micro batch of every data rank
  int64_t train_samples = 1, valid_samples = -1;          // that the run wants, of a Megatron order; -1: one epoch
};

// Const members may be called by several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t sample_count() const = 0;  // of one pass over the data
  // Of a pass; fewer than sample_count() where some hold nothing (data.pass_end).
  virtual int64_t row_count() const { return sample_count(); }
  virtual int64_t columns() const = 0;      // of every sample
  virtual int64_t token_count() const = 0;  // of one pass
  // Any index from 0 on; behind sample_count() the data comes again, shuffled anew (a fixed file: in the same order).
  virtual Sample sample(int64_t index) const = 0;
  virtual std::string origin(int64_t index) const = 0;  // where it comes from, for people
  // Samples end in padding of different length, as the rule: micro batches are as wide as their longest row needs.
  virtual bool ragged() const { return false; }
  virtual PairSet pairs() const { return {}; }  // preferences: of one pass
  // Tells a run's history that from `step` on it takes samples of this dataset.
  virtual void note_sources(DataHistory& history, int64_t step, int64_t global_batch) const {
    history.change(step, global_batch, {}, {});
  }
  // Which samples come from which source, from now on. Before any sample is taken; without it, as a run from its beginning.
  virtual void follow(const DataHistory&) {}
};

struct Datasets {
  std::unique_ptr<Dataset> train, valid;     // valid is null if there is none; it is never shuffled
  std::vector<TokensInUse> tokens;           // with options.token_folder: what save_tokens may write there
  std::vector<std::string> notes;            // what was read, cut and left out, a line each, for people
  std::vector<std::string> warnings;         // of these what is likely a mistake
  std::optional<int32_t> end_token;          // that answers of conversations end with; none without conversations
  std::string chat_template;                 // that they were rendered with, when it was not the tokenizer's own; else empty
  std::optional<uint64_t> chat_fingerprint;  // of the template of data.train, its own or not; none without conversations
};

}  // namespace ravine
