// The decoder of all families: embedding, layers of attention and MLP around a residual stream, final norm, output
// head. A family reads its config.json into a DecoderSpec and names its weight files. Code that depends on how a model
// is built (converters, plans, figures) reads this spec (Model::decoder), never the family's name. A family that is
// built otherwise derives from Model itself, as the decoder does.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/layers/attention.h"
#include "model/layers/head.h"
#include "model/layers/mlp.h"
#include "model/layers/moe.h"
#include "model/layers/norm.h"
#include "model/model.h"

namespace ravine {

// The positions of the norms in a layer of a decoder. A: attention; M: MLP; x: residual stream; n: norms. Norms have
// the names of Transformers:
enum class Topology : uint8_t {
  pre_norm,   // x + A(n1(x)), then x + M(n2(x)): input_layernorm, post_attention_layernorm (Llama, most others)
  parallel,   // x + A(n1(x)) + M(n2(x)): the same names (GPT-J, NeoX)
  post_norm,  // x + n1(A(x)), then x + n2(M(x)): post_attention_layernorm, post_feedforward_layernorm (OLMo 2)
  // x + n2(A(n1(x))), then x + n4(M(n3(x))): input_, post_attention_, pre_feedforward_ and post_feedforward_layernorm
  // (Gemma 2)
  sandwich,
};

struct DecoderSpec {
  Topology topology = Topology::pre_norm;
  NormSpec norm;
  AttentionSpec attention;
  std::vector<int64_t> windows;  // per layer; empty: attention.window in all layers
  bool scale_by_layer = false;   // scores of layer i are also divided by i + 1 (GPT-2's option)
  MlpSpec mlp;
  std::vector<MlpSpec> mlps;   // per layer, if layers differ; empty: mlp in all layers
  std::optional<MoeSpec> moe;  // experts, which replace the MLPs
  std::vector<bool> sparse;    // per layer: true if it has experts; empty: all layers have them
  std::optional<RopeSettings> rope;
  HeadSpec head;
  // Factor by which the embedding is multiplied (Gemma: the square root of the hidden size, rounded to the compute
  // type).
  double embedding_scale = 1;
  bool embedding_norm = false;  // a LayerNorm follows the embedding (Bloom)
  bool position_table = false;  // learned positions, facts.max_positions of them (GPT-2)
  // true: the embedding of the padding id gets a gradient (families without PyTorch's padding_idx).
  bool padding_learns = false;
  // The length of the sequences on which the model was trained, if facts.max_positions sets no bound (ALiBi, dynamic
  // NTK); 0: config.json does not have it.
  int64_t trained_length = 0;
  // Fields to write to config.json if the sizes of the model change, since the family derives their defaults from the
  // sizes.
  Json implied = Json::object();
  CheckpointNames names;
  // A function that returns the adapter of a module (model/adapters.h); not set: the model has no adapters.
  std::function<std::optional<AdapterSpec>(const std::string& module)> adapter_of;

  int64_t window(int64_t layer) const { return windows.empty() ? attention.window : windows[static_cast<size_t>(layer)]; }
  bool windowed() const;  // true if a layer has a window
  bool is_sparse(int64_t layer) const { return moe && (sparse.empty() || sparse[static_cast<size_t>(layer)]); }
  const MlpSpec& mlp_of(int64_t layer) const { return mlps.empty() ? mlp : mlps[static_cast<size_t>(layer)]; }
};

// Returns the number of pairs (query, key) that attention computes in a sequence of `length` tokens. Each query sees at
// most `window` keys (0: all keys up to its own).
int64_t attended_pairs(int64_t window, int64_t length);

// Builds a decoder model from its spec. head_size and the other sizes of attention in `facts` are set from the spec;
// all other fields of `facts` must be set.
std::unique_ptr<Model> make_decoder(const Json& config, ModelFacts facts, DecoderSpec spec);

// --- parts of config.json that families share. Each function reads its fields into facts and spec.

// Reads the fields that all families share: model_type, the eos, bos and padding ids, and the fields that do not affect
// the arithmetic or must have one value. Calls r.finish(), so it is called last.
void read_common(ConfigReader& r, ModelFacts& f);
// Reads the fields vocab_size (number of token ids) and initializer_range (standard deviation of initial weights).
void read_vocabulary(ConfigReader& r, ModelFacts& f, DecoderSpec& s);
// read_llama_shape reads the fields of Llama's config.json: sizes, grouped keys and values, head_dim, gated MLP,
// rms_norm_eps, max_position_embeddings. LlamaDefaults holds Transformers' defaults for absent fields.
struct LlamaDefaults {
  double eps = 1e-6;
  int64_t positions = 2048;
  bool tied = false;
  const char* act = "silu";  // required value of hidden_act; null: the family reads the field
};
void read_llama_shape(ConfigReader& r, ModelFacts& f, DecoderSpec& s, const LlamaDefaults& absent = {});
// Sets the padding id to `id`, the default of Transformers for this family, if pad_token_id is absent (null: none) and
// the vocabulary has this id. Called before read_common.
void set_padding(const ConfigReader& r, ModelFacts& f, int64_t id);
// Sets the number of attention heads in a family where each head has its own key and value. `key`: name of the field,
// for messages. A UserError if it does not divide the hidden size.
void set_heads(ConfigReader& r, const std::string& key, int64_t heads, DecoderSpec& s);
// Reads the windows of attention of each layer from use_sliding_window, sliding_window, max_window_layers and
// layer_types, as Qwen uses them.
void read_layer_windows(ConfigReader& r, const ModelFacts& f, DecoderSpec& s);

// Reads layer_types and sets the attention window of each layer (s.windows): full_attention has no window,
// sliding_attention has `window`, which must not be 0. `needs` names the fields that set the window, for messages.
void read_layer_types(ConfigReader& r, int64_t window, const std::string& needs, DecoderSpec& s);

// read_experts reads num_experts (or num_local_experts), num_experts_per_tok, output_router_logits and
// router_aux_loss_coef into s.moe, as Mixtral and Qwen use them. A UserError if the numbers do not fit. ExpertDefaults:
// Transformers' defaults for absent fields.
struct ExpertDefaults {
  int64_t experts = 8, top_k = 2;
};
void read_experts(ConfigReader& r, DecoderSpec& s, const ExpertDefaults& absent);
// Reads which layers have experts, from decoder_sparse_step and mlp_only_layers. Layer i has experts if it is not in
// mlp_only_layers and i + 1 is a multiple of decoder_sparse_step.
void read_sparse_layers(ConfigReader& r, const ModelFacts& f, DecoderSpec& s);

}  // namespace ravine
