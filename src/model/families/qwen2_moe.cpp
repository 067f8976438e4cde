// Qwen1.5-MoE and Qwen2 with experts (Qwen team 2024): Qwen2 with experts in some layers, and a shared expert with a
// gate. The field shared_expert_gate is Ravine's own: Transformers' class always has the gate, MindFormers' class
// never.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_qwen2_moe(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s, {.positions = 32768});
  s.attention.qkv_bias = r.boolean("qkv_bias", true);
  // A window in every other layer below max_window_layers, as in Transformers 5.
  const bool windows = r.boolean("use_sliding_window", false) && !r.is_null("sliding_window");
  const int64_t window = r.integer("sliding_window", 0, 1 << 30, 4096), below = r.integer("max_window_layers", 0, 1 << 20, 28);
  for (int64_t i = 0; i < f.layers; ++i) s.windows.push_back(windows && i % 2 == 0 && i < below ? window : 0);
  read_layer_types(r, windows ? window : 0, "use_sliding_window and sliding_window", s);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  s.moe.emplace();
  read_experts(r, s, {.experts = 60, .top_k = 4});
  read_sparse_layers(r, f, s);
  MoeSpec& m = *s.moe;
  m.width = r.integer("moe_intermediate_size", 1, 1 << 24, 1408);
  m.routing.normalise = r.boolean("norm_topk_prob", false);
  m.shared = s.mlp;
  m.shared.width = r.integer("shared_expert_intermediate_size", 0, 1 << 24, 5632);
  m.shared_gate = r.boolean("shared_expert_gate", true) && m.shared.width > 0;
  read_common(r, f);
  s.names.architecture = "Qwen2MoeForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::llama;
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
