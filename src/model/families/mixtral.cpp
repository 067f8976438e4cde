// Mixtral (Jiang et al. 2024): Mistral with experts instead of MLPs. The weights of the chosen experts are normalised.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_mixtral(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s, {.eps = 1e-5, .positions = 4096 * 32});
  s.attention.window = r.integer("sliding_window", 1, 1 << 30, 0);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  s.moe.emplace();
  read_experts(r, s, {.experts = 8, .top_k = 2});
  s.moe->routing.normalise = true;
  s.moe->width = s.mlp.width;
  r.only("router_jitter_noise", 0.0, "noise on what routers see is not offered");
  read_common(r, f);
  s.names.architecture = "MixtralForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::llama;
  s.names.modules = {{"mlp.gate", "block_sparse_moe.gate"},
                     {"mlp.experts.gate_proj", "block_sparse_moe.experts.{}.w1"},
                     {"mlp.experts.up_proj", "block_sparse_moe.experts.{}.w3"},
                     {"mlp.experts.down_proj", "block_sparse_moe.experts.{}.w2"}};
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
