// The decoder that all families are: embedding, layers of attention and MLP around a residual stream, final norm, output head.
// A family reads its config.json into a DecoderSpec and names its files. Whoever must know how a model is built (converters,
// plans, figures) asks that spec (Model::decoder), never the family's name. A family that is built otherwise derives from Model
// itself, as the decoder does.
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

// Where the norms of a layer stand; A is attention, M the MLP, x the residual stream. Norms are declared by the names of
// Transformers:
enum class Topology : uint8_t {
  pre_norm,   // x + A(n1(x)), then x + M(n2(x)): input_layernorm, post_attention_layernorm (Llama and most others)
  parallel,   // x + A(n1(x)) + M(n2(x)): the same names (GPT-J, NeoX)
  post_norm,  // x + n1(A(x)), then x + n2(M(x)): post_attention_layernorm, post_feedforward_layernorm (OLMo 2)
  sandwich,   // x + n2(A(n1(x))), then x + n4(M(n3(x))): input_, post_attention_, pre_feedforward_ and
              // post_feedforward_layernorm (Gemma 2)
};

struct DecoderSpec {
  Topology topology = Topology::pre_norm;
  NormSpec norm;
  AttentionSpec attention;
  std::vector<int64_t> windows;  // per layer; empty: attention.window in all
  bool scale_by_layer = false;   // scores of layer i also divided by i + 1 (GPT-2's option)
  MlpSpec mlp;
  std::vector<MlpSpec> mlps;   // per layer, where they differ; empty: mlp in all
  std::optional<MoeSpec> moe;  // in place of MLPs:
  std::vector<bool> sparse;    // per layer, whether it is there; empty: in all
  std::optional<RopeSettings> rope;
  HeadSpec head;
  double embedding_scale =
      1;  // of what the embedding gives (Gemma: the root of the hidden size, rounded to the type of compute)
  bool embedding_norm = false;  // a LayerNorm makes the residual stream (Bloom)
  bool position_table = false;  // learned positions, facts.max_positions of them (GPT-2)
  bool padding_learns = false;  // the embedding of the padding id gets a gradient (families without PyTorch's padding_idx)
  int64_t trained_length =
      0;  // sequences that it was trained with, where facts.max_positions sets no bound (ALiBi, dynamic NTK); 0: the file does not say
  Json implied = Json::object();  // fields that a config.json needs once its sizes change, where they now follow from sizes
  CheckpointNames names;
  std::function<std::optional<AdapterSpec>(const std::string& module)> adapter_of;  // model/adapters.h; empty: none has one

  int64_t window(int64_t layer) const { return windows.empty() ? attention.window : windows[static_cast<size_t>(layer)]; }
  bool windowed() const;  // in some layer
  bool is_sparse(int64_t layer) const { return moe && (sparse.empty() || sparse[static_cast<size_t>(layer)]); }
  const MlpSpec& mlp_of(int64_t layer) const { return mlps.empty() ? mlp : mlps[static_cast<size_t>(layer)]; }
};

// Pairs (query, key) of a sequence whose queries see `window` keys at most (0: all before them).
int64_t attended_pairs(int64_t window, int64_t length);

// `facts` is complete but for head_size and the like, which are taken from the spec.
std::unique_ptr<Model> make_decoder(const Json& config, ModelFacts facts, DecoderSpec spec);

// --- pieces of config.json that families share. Each reads its fields into facts and spec.

// model_type, eos, bos, padding id, and the fields that say nothing about the arithmetic or must have one value. Calls
// r.finish().
void read_common(ConfigReader& r, ModelFacts& f);
// vocab_size and initializer_range.
void read_vocabulary(ConfigReader& r, ModelFacts& f, DecoderSpec& s);
// Llama's spellings: sizes, grouped keys and values, head_dim, gated MLP, rms_norm_eps, max_position_embeddings; what
// Transformers takes where a file says nothing.
struct LlamaDefaults {
  double eps = 1e-6;
  int64_t positions = 2048;
  bool tied = false;
  const char* act = "silu";  // that hidden_act must say; null: the family reads what its MLP does
};
void read_llama_shape(ConfigReader& r, ModelFacts& f, DecoderSpec& s, const LlamaDefaults& absent = {});
// Of a file that says nothing of pad_token_id, the one that Transformers takes (null: none), where the vocabulary has it.
// Before read_common.
void set_padding(const ConfigReader& r, ModelFacts& f, int64_t id);
// heads that divide the hidden size, one key and value each.
void set_heads(ConfigReader& r, const std::string& key, int64_t heads, DecoderSpec& s);
// use_sliding_window, sliding_window, max_window_layers, layer_types, as Qwen has them.
void read_layer_windows(ConfigReader& r, const ModelFacts& f, DecoderSpec& s);

// layer_types over the windows that are there already: full_attention has none, sliding_attention `window`, which must be there
// (`needs`: the fields that say it).
void read_layer_types(ConfigReader& r, int64_t window, const std::string& needs, DecoderSpec& s);

// num_experts (or num_local_experts), num_experts_per_tok, output_router_logits with router_aux_loss_coef, into s.moe, as
// Mixtral and Qwen have them; what Transformers takes where a file says nothing. What does not fit is refused.
struct ExpertDefaults {
  int64_t experts = 8, top_k = 2;
};
void read_experts(ConfigReader& r, DecoderSpec& s, const ExpertDefaults& absent);
// decoder_sparse_step, mlp_only_layers: layer i has experts if it is not among the latter and i + 1 is a multiple of the step.
void read_sparse_layers(ConfigReader& r, const ModelFacts& f, DecoderSpec& s);

}  // namespace ravine
