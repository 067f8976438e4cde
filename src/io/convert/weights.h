// The weights of a model in one place, whatever they came from: tensors by the names of Hugging Face's Llama family, and
// config.json. Every source gives one of these and every target is written from one, so each layout goes to each other.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/convert/elements.h"

namespace ravine {

struct Weights {
  std::map<std::string, ElementsPtr> tensors;
  Json config;                     // config.json; null if the source has none
  std::string config_where;        // file that it came from
  std::string folder;              // Hugging Face folder with tokenizer and generation_config.json; "" if there is none
  std::vector<std::string> notes;  // what the user should know
  void add(const std::string& name, ElementsPtr tensor);  // a name twice is a UserError
};

// Sizes that the layouts need, from a config.json of the Llama family (llama, mistral, qwen2, qwen3, internlm, aquila,
// baichuan).
struct Geometry {
  std::string family;
  int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_size = 0, vocabulary = 0;
  bool tied = false;
  int64_t group() const { return heads / kv_heads; }  // query heads of a group
};
// A family that is not of Llama's names, or a field that is missing or wrong, is a UserError.
Geometry geometry_of(const Json& config, const std::string& where);
// Says whether geometry_of knows the family.
bool has_geometry(const Json& config);

// The shape that a tensor must have, by its name; a rank of 0 for a name that no model of the Llama family has.
Shape expected_shape(const std::string& name, const Geometry& g);
// Every tensor is known, has its shape, and none that the model needs is missing; anything else is a UserError naming it. With
// `allow_unknown` unknown ones are taken out and noted.
void check_weights(Weights& weights, const Geometry& g, bool allow_unknown);

// Names as a family's files spell them: Baichuan joins q, k and v into W_pack. In: to the names above; out: back.
void split_joined(Weights& weights, const Geometry& g);
void join_for_family(Weights& weights, const Geometry& g);

// The vocabulary with `rows` entries: old ones stay as they are; new ones are the mean of the old, in the embedding and in the
// head alike.
void resize_vocabulary(Weights& weights, int64_t rows);
// Shape [rows, ...]: the first rows, or all and then the last one repeated.
ElementsPtr padded_rows(ElementsPtr table, int64_t rows);

inline constexpr const char* kComplete = "use a complete checkpoint";  // the fix where a part is missing

inline std::string layer_name(int64_t layer, std::string_view suffix) {
  return fmt::format("model.layers.{}.{}", layer, suffix);
}

}  // namespace ravine
