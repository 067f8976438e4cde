// A model is a list of blocks over declared parameters. Families (one file each under families/) build it from a config.json.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/model_choices.h"
#include "engine/ctx.h"
#include "model/weight_files.h"

namespace ravine {

struct DecoderSpec;  // model/decoder.h

struct Block {
  std::string path;  // "model.layers.3"
  Unit* unit;
  BlockFn run;
};

// Figures that plans, logs and caches need; the same for every family.
struct ModelFacts {
  std::string family;
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, value_size = 0, vocabulary = 0, max_positions = 0;
  // value_size: of a head of values, which may be another than that of keys
  std::vector<int64_t> eos;
  int64_t bos = -1, pad = -1;
};

// The files that a model begins from, where their vocabulary or their tie of embedding and head is another than the model's.
struct StoredVocabulary {
  int64_t rows = 0;   // of the tables in the files
  bool tied = false;  // they have no head of its own
  NewRows new_rows = NewRows::mean;
  uint64_t seed = 0;  // of rows that are drawn
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // All blocks in order over the batch that c has begun. With labels: side "loss"; without: outputs "logits" (of
  // batch.logit_rows) and "hidden" (after the final norm). Observers see each block's flow.
  void forward(Ctx& c);
  // Blocks [begin, end) of them, from what the block before handed on.
  Flow forward(Ctx& c, size_t begin, size_t end, Flow in);
  // Tables that depend on the longest position (rotary embedding); called by forward, and ahead of a run to have them ready.
  virtual void prepare(int64_t /*positions*/, const Types&, DeviceKind) {}
  // Once, after the weights of a store that is for running only were read: what depends on weights alone may be worked out in
  // them.
  virtual void prepare_weights(Ctx&) {}

  const ModelFacts& facts() const { return facts_; }
  // How it is built; null: not as the decoder of model/decoder.h.
  virtual const DecoderSpec* decoder() const { return nullptr; }
  const Json& config() const { return config_; }       // as read, for export
  const WeightFiles& files() const { return files_; }  // how weight files spell and lay out the parameters
  // Nothing where files are read as they are; set by with_vocabulary (model/vocabulary.h).
  const std::optional<StoredVocabulary>& stored_vocabulary() const { return stored_vocabulary_; }
  void set_stored_vocabulary(std::optional<StoredVocabulary> stored) { stored_vocabulary_ = stored; }
  ParamSet& params() { return params_; }
  const ParamSet& params() const { return params_; }
  const std::vector<Block>& blocks() const { return blocks_; }

  // Per token: 6 times the parameters in products that it meets (of those that are frozen 4 times), and of each layer's attention, with H heads
  // of keys of size D and values of size E
  //   3 T H (D + E)                       the causal half, forward and twice for backward
  //   6 (w - w^2 / (2 T)) H (D + E)       under a window of w < T: the last w keys, fewer at the beginning
  double training_flops_per_token(int64_t sequence_length) const;

 protected:
  Model() = default;
  ParamSet params_;
  std::vector<Block> blocks_;
  ModelFacts facts_;
  WeightFiles files_;
  std::optional<StoredVocabulary> stored_vocabulary_;
  Json config_;
};

// Reads FOLDER/config.json (or a FILE.json) and builds the family it names. Every field is honoured or refused by name
// (UserError).
std::unique_ptr<Model> open_model(const std::string& config_path);
std::unique_ptr<Model> make_model(const Json& config, const std::string& where);

// Applies train.freeze and optimizer.groups by name pattern; of several groups that match, the first counts. A pattern that
// matches nothing is a UserError with the nearest name.
struct ParamRule {
  std::string match;
  double lr_mult = 1, wd_mult = 1;
  int64_t from_step = 1;
  bool freeze = false;
  std::string option = "pattern",
              given = "";  // for messages: train.freeze, optimizer.groups[1].match; ", run.yaml:7" or nothing
};
void apply_rules(ParamSet& params, const std::vector<ParamRule>& rules);

}  // namespace ravine
