// OLMo 2 (Ai2 2024): Llama with norms after attention and MLP instead of before. Attention has an RMSNorm over whole
// rows of q and of k before the rotation.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_olmo2(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s, {.eps = 1e-5});
  s.topology = Topology::post_norm;
  s.attention.norms = AttentionSpec::Norms::row;
  s.attention.qkv_bias = s.attention.out_bias = r.boolean("attention_bias", false);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  set_padding(r, f, 1);
  read_common(r, f);
  s.names.architecture = "Olmo2ForCausalLM";
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
