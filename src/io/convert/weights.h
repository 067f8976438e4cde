// The weights of a model in one place, whatever they came from: tensors by the names that models declare (those of Hugging
// Face's Llama, model/decoder.cpp), and config.json. Every source gives one of these and every target is written from one, so
// each layout goes to each other.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/convert/elements.h"
#include "model/decoder.h"

namespace ravine {

// Where a training run stood; 0: the source does not say.
struct RunPosition {
  int64_t step = 0;             // steps done
  int64_t optimizer_steps = 0;  // updates that the moments have seen
  int64_t tokens = 0, global_batch = 0;
};

struct Weights {
  std::map<std::string, ElementsPtr> tensors;
  Json config;               // config.json; null if the source has none
  std::string config_where;  // file that it came from
  std::string tokenizer;     // folder or file of the tokenizer, where it lies elsewhere than in `folder`
  std::function<std::map<std::string, std::string>(const std::string&)>
      missing_tokenizer_files;  // as in SaveFolder (io/huggingface.h)
  std::string folder;           // Hugging Face folder with tokenizer and generation_config.json; "" if there is none
  std::string adapter;  // that was merged: what it keeps of tokenizer, template and generation_config.json counts before
  RunPosition position;
  Json data_history;               // of a Ravine run: what it saw of its data (data/history.h); null elsewhere
  std::vector<std::string> notes;  // what the user should know
  void add(const std::string& name, ElementsPtr tensor);  // a name twice is a UserError
};

// What of a training state a reader is asked for, under the names of their weights: moments are those of Adam and its like,
// momentum is that of SGD. Of trained a checkpoint of ours gives the masters that lie in it, and not those that its run left in the
// model that it began from.
enum class StateKind : uint8_t { weights, masters, trained, first_moment, second_moment, momentum };
inline bool is_moment(StateKind kind) { return kind >= StateKind::first_moment; }
// Before the name in a checkpoint of ours: "weights/", "m/", "v/", "momentum/".
std::string_view state_prefix(StateKind kind);

// Sizes that the layouts need, and the declarations of the model, from a config.json of any family that trains here.
struct Geometry {
  std::string family;  // for messages
  int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_size = 0, vocabulary = 0;
  bool tied = false, gated = true;  // the head is the embedding; the MLP has a gate
  std::shared_ptr<Model> model;
  const DecoderSpec& spec() const { return *model->decoder(); }
  int64_t group() const { return heads / kv_heads; }                                       // query heads of a group
  const Param* find(const std::string& name) const { return model->params().find(name); }  // a tied head has none of its own
  bool has(const std::string& name) const { return find(name) != nullptr; }
};
// What model/families refuse is a UserError.
Geometry geometry_of(const Json& config, const std::string& where);
// Says whether the family is one that trains here.
bool has_geometry(const Json& config);

// Whether two tensors have one shape and the same values, whatever their types.
bool same_values(const Elements& a, const Elements& b);
// What is said of a tied head with values of its own; `where` has the config.
std::string two_tables_text(const std::string& where);
// Where the config ties the head to the embedding and `w` holds two tables of other values, the tensors count: the config no
// longer ties them, a note says so, and it returns true. Names are those of the family's files or those that models declare.
bool part_own_head(Weights& w, const Geometry& g);

// The shape that a tensor must have, by its name; a rank of 0 for a name that the model does not have.
Shape expected_shape(const std::string& name, const Geometry& g);
// Every tensor is known, has its shape, and none that the model needs is missing; anything else is a UserError naming it. With
// `allow_unknown` unknown ones are taken out and noted. Of moments (`partial`) any may be missing.
void check_weights(Weights& weights, const Geometry& g, bool allow_unknown, bool partial = false);

// Between a family's files and the names above: joined q, k, v are cut, matrices stored [in, out] are turned. Names that are
// not of the family's files stay as they are.
void from_family_files(Weights& weights, const Geometry& g);
void from_files(Weights& weights, const WeightFiles& files, const std::string& where);  // `where`: what says the shapes
void to_family_files(Weights& weights, const Geometry& g);
void to_files(Weights& weights, const WeightFiles& files);

// The vocabulary with `rows` entries: old ones stay as they are; new ones are the mean of the old, in the embedding and in the
// head alike; of moments they are zero. The config takes the fields that are `implied` by the sizes it had (DecoderSpec).
void resize_vocabulary(Weights& weights, const Json& implied, int64_t rows, bool moments = false);
// Shape [rows, ...]: the first rows, or all and then the last one repeated.
ElementsPtr padded_rows(ElementsPtr table, int64_t rows);

inline constexpr const char* kComplete = "use a complete checkpoint";  // the fix where a part is missing

inline std::string layer_name(int64_t layer, std::string_view suffix) {
  return fmt::format("model.layers.{}.{}", layer, suffix);
}

}  // namespace ravine
