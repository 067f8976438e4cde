// A model: a list of blocks over declared parameters. Families (one file each in families/) build it from a
// config.json.
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

// The sizes and special ids of a model that plans, logs and caches need; equal in meaning for every family. value_size:
// size of a head of values, which may differ from head_size. bos, pad: -1: none.
struct ModelFacts {
  std::string family;
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, value_size = 0, vocabulary = 0, max_positions = 0;
  std::vector<int64_t> eos;
  int64_t bos = -1, pad = -1;
};

// The vocabulary of the weight files that a model begins from. Set if its size or its tie of embedding and head differs
// from the model's.
struct StoredVocabulary {
  int64_t rows = 0;   // rows of the tables in the files
  bool tied = false;  // the files have no separate head
  NewRows new_rows = NewRows::mean;
  uint64_t seed = 0;  // for rows that are drawn
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Runs the forward pass of all blocks in order, over the batch that c.begin() has set. With labels: adds to
  // StepSum::loss. Without: outputs "logits" (of batch.logit_rows) and "hidden" (after the final norm). Observers see
  // the flow of each block.
  void forward(Ctx& c);
  // Runs the forward pass of blocks [begin, end). `in`: the output of the block before `begin`. Returns the output of
  // the last block.
  Flow forward(Ctx& c, size_t begin, size_t end, Flow in);
  // Makes the tables (rotary embedding) for `positions` positions. Called by forward(), or earlier so that the tables
  // are ready.
  virtual void prepare(int64_t /*positions*/, const Types&, DeviceKind) {}
  // Replaces weights by values computed from weights alone (rows of a head scaled to length 1). Called once, after a
  // store without training has read its weights.
  virtual void prepare_weights(Ctx&) {}

  const ModelFacts& facts() const { return facts_; }
  // Returns the spec from which the model was built; null if the model is not the decoder of model/decoder.h.
  virtual const DecoderSpec* decoder() const { return nullptr; }
  const Json& config() const { return config_; }       // as read, for export
  const WeightFiles& files() const { return files_; }  // names and layout of the parameters in weight files
  // Returns the vocabulary of the weight files, if it differs from the model's; empty if files are read as they are.
  // Set by with_vocabulary (model/vocabulary.h).
  const std::optional<StoredVocabulary>& stored_vocabulary() const { return stored_vocabulary_; }
  void set_stored_vocabulary(std::optional<StoredVocabulary> stored) { stored_vocabulary_ = stored; }
  ParamSet& params() { return params_; }
  const ParamSet& params() const { return params_; }
  const std::vector<Block>& blocks() const { return blocks_; }

  // Returns the FLOPs of a training step per token. Each parameter in products counts 6 times per token that uses it,
  // or 4 times if it is frozen. Attention of a layer, with H heads of keys of size D and values of size E.
  //   3 T H (D + E)                       the causal half, forward and twice for backward;
  //   6 (w - w^2 / (2 T)) H (D + E)       with a window of w < T: the last w keys, fewer at the beginning
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

// Reads FOLDER/config.json (or a FILE.json) and builds its model, without weights. Every field is applied or refused by
// name (UserError).
std::unique_ptr<Model> open_model(const std::string& config_path);
std::unique_ptr<Model> make_model(const Json& config, const std::string& where);

// A rule of train.freeze or optimizer.groups: settings for the parameters whose names match a pattern. If several
// groups match a parameter, the first is applied. A pattern that matches nothing is a UserError with the nearest name.
struct ParamRule {
  std::string match;
  double lr_mult = 1, wd_mult = 1;
  int64_t from_step = 1;
  bool freeze = false;
  // For messages. option: train.freeze or optimizer.groups[1].match; given: the place of the option, ", run.yaml:7" or
  // empty.
  std::string option = "pattern", given = "";
};
void apply_rules(ParamSet& params, const std::vector<ParamRule>& rules);

}  // namespace ravine
