// Qwen3 with experts (Qwen team 2025): Qwen3 with experts in some layers, without shared experts.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_qwen3_moe(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s, {.positions = 32768});
  s.attention.qkv_bias = s.attention.out_bias = r.boolean("attention_bias", false);
  s.attention.norms = AttentionSpec::Norms::head;
  // The window applies to all layers.
  const bool window = r.boolean("use_sliding_window", false) && !r.is_null("sliding_window");
  s.attention.window = r.integer("sliding_window", 0, 1 << 30, 4096) * (window ? 1 : 0);
  r.ignore({"max_window_layers"});
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  s.moe.emplace();
  read_experts(r, s, {.experts = 128, .top_k = 8});
  read_sparse_layers(r, f, s);
  s.moe->width = r.integer("moe_intermediate_size", 1, 1 << 24, 768);
  s.moe->routing.normalise = r.boolean("norm_topk_prob", false);
  read_common(r, f);
  s.names.architecture = "Qwen3MoeForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::core;
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
