// The weights of a model from any source: tensors under the names that models declare (the names of Hugging Face's
// Llama, model/decoder.cpp), and config.json. Every source is read into a Weights and every target is written from one,
// so any layout converts to any other.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/convert/elements.h"
#include "model/decoder.h"

namespace ravine {

// The progress of a training run, as its checkpoint stores it; 0: unknown.
struct RunPosition {
  int64_t step = 0;             // steps done
  int64_t optimizer_steps = 0;  // number of updates in the moments
  int64_t tokens = 0, global_batch = 0;
};

struct Weights {
  std::map<std::string, ElementsPtr> tensors;
  Json config;               // config.json; null if the source has none
  std::string config_where;  // file of `config`
  std::string tokenizer;     // folder or file of the tokenizer, if not in `folder`
  std::function<std::map<std::string, std::string>(const std::string&)>
      missing_tokenizer_files;  // as in SaveFolder (io/huggingface.h)
  std::string folder;           // Hugging Face folder with tokenizer and generation_config.json; "": none
  // Folder of the merged adapter, whose tokenizer, template and generation_config.json are preferred.
  std::string adapter;
  RunPosition position;
  Json data_history;                                      // data used by a Ravine run (data/history.h); null for others
  std::vector<std::string> notes;                         // notes for the user
  void add(const std::string& name, ElementsPtr tensor);  // a duplicate name is a UserError
};

// The part of a training state to read, under the names of the weights: weights, f32 masters, or an optimizer state.
// Moments belong to Adam and similar optimizers, momentum to SGD. `trained` is the masters without frozen weights: a
// Ravine checkpoint gives only the masters stored in it, none from the model folder.
enum class StateKind : uint8_t { weights, masters, trained, first_moment, second_moment, momentum };
inline bool is_moment(StateKind kind) { return kind >= StateKind::first_moment; }
// Returns the prefix of tensor names for a part of the state in a Ravine checkpoint: "weights/", "m/", "v/",
// "momentum/".
std::string_view state_prefix(StateKind kind);

// The sizes that the layouts need, and the declared model, from the config.json of any family that Ravine trains.
struct Geometry {
  std::string family;  // for messages
  int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_size = 0, vocabulary = 0;
  bool tied = false, gated = true;  // head equals the embedding; the MLP has a gate
  std::shared_ptr<Model> model;
  const DecoderSpec& spec() const { return *model->decoder(); }
  int64_t group() const { return heads / kv_heads; }  // query heads of a group
  // Returns the parameter of this name; null if the model has none. A tied head has no parameter.
  const Param* find(const std::string& name) const { return model->params().find(name); }
  bool has(const std::string& name) const { return find(name) != nullptr; }
};
// Returns the sizes of the model that `config`, a config.json, describes. `where` is its name in messages. Errors of
// model/families are UserErrors.
Geometry geometry_of(const Json& config, const std::string& where);
// True if geometry_of accepts the config: Ravine trains its family.
bool has_geometry(const Json& config);

// True if two tensors have the same shape and values; their types may differ.
bool same_values(const Elements& a, const Elements& b);
// Returns the warning about a head that the config ties to the embedding and the files store with other values; `where`
// is the path of the config.
std::string two_tables_text(const std::string& where);
// Makes the head a table of its own if the config ties it but `w` holds two different tables: unties the config, adds a
// note and returns true. Else returns false. Names in `w` are the family's or the declared ones.
bool part_own_head(Weights& w, const Geometry& g);

// Returns the shape that the model gives to tensor `name`; a shape of rank 0 if the model has no such tensor.
Shape expected_shape(const std::string& name, const Geometry& g);
// Checks that every tensor is known, has its shape, and that none is missing; a fault is a UserError that names the
// tensor. With `allow_unknown` unknown tensors are removed and noted. With `partial` (moments) tensors may be missing.
void check_weights(Weights& weights, const Geometry& g, bool allow_unknown, bool partial = false);

// Renames the tensors of `weights` from the names of the family's files to the declared names: joined q, k, v are
// split, matrices stored [in, out] are transposed.
void from_family_files(Weights& weights, const Geometry& g);
// Renames the tensors of `weights` like from_family_files, by the table `files`. Tensors that the table lacks keep
// their names. `where`: source of the shapes, for messages.
void from_files(Weights& weights, const WeightFiles& files, const std::string& where);
// Renames the tensors of `weights` from the declared names to the names of the family's files, joined and transposed as
// these store them.
void to_family_files(Weights& weights, const Geometry& g);
void to_files(Weights& weights, const WeightFiles& files);

// Resizes the vocabulary of `weights` to `rows`. Old rows are kept; new rows are the mean of the old ones, in embedding
// and head; for `moments` they are zero. The config gets the fields that the old sizes `implied` (DecoderSpec), with
// their old values.
void resize_vocabulary(Weights& weights, const Json& implied, int64_t rows, bool moments = false);
// Returns `rows` rows of a table of shape [n, ...]: its first rows, or all of its rows followed by copies of the last
// one.
ElementsPtr padded_rows(ElementsPtr table, int64_t rows);

inline constexpr const char* kComplete = "use a complete checkpoint";  // the fix if a part is missing

inline std::string layer_name(int64_t layer, std::string_view suffix) {
  return fmt::format("model.layers.{}.{}", layer, suffix);
}

}  // namespace ravine
