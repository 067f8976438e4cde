// The decoder that all families are: embedding, layers of attention and MLP around a residual stream, final norm, output head. A family
// reads its config.json into a DecoderSpec and names its files.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/model.h"

namespace ravine {

struct DecoderSpec {
  NormSpec norm;
  AttentionSpec attention;
  MlpSpec mlp;
  std::optional<RopeSettings> rope;
  std::vector<int64_t> windows;   // per layer; empty: attention.window in all
  bool tied = false;              // the head is the embedding
  bool embedding_norm = false;    // a LayerNorm makes the residual stream (Bloom)
  bool position_table = false;    // learned positions, facts.max_positions of them (GPT-2)
  bool parallel = false;          // attention and MLP read the same stream and are added together (GPT-J, NeoX)
  bool unit_head = false;         // rows of the head at length 1 (Baichuan2's NormHead)
  bool scale_by_layer = false;    // scores of layer i also divided by i + 1 (GPT-2's option)
  bool padding_learns = false;    // the embedding of the padding id gets a gradient (families without PyTorch's padding_idx)
  CheckpointNames names;
};

// `facts` is complete but for head_size and the like, which are taken from the spec.
std::unique_ptr<Model> make_decoder(const Json& config, ModelFacts facts, DecoderSpec spec);

// --- pieces of config.json that families share. Each reads its fields into facts and spec.

// model_type, eos, bos, padding id, and the fields that say nothing about the arithmetic or must have one value. Calls r.finish().
void read_common(ConfigReader& r, ModelFacts& f);
// vocab_size and initializer_range.
void read_vocabulary(ConfigReader& r, ModelFacts& f, DecoderSpec& s);
// Llama's spellings: sizes, grouped keys and values, head_dim, gated MLP by silu, rms_norm_eps, max_position_embeddings.
void read_llama_shape(ConfigReader& r, ModelFacts& f, DecoderSpec& s);
// heads that divide the hidden size, one key and value each.
void set_heads(ConfigReader& r, const std::string& key, int64_t heads, DecoderSpec& s);
// use_sliding_window, sliding_window, max_window_layers, layer_types, as Qwen has them.
void read_layer_windows(ConfigReader& r, const ModelFacts& f, DecoderSpec& s);

}  // namespace ravine
