// Gemma 2 (Google 2024): norms before and after attention and MLP, which scale by 1 + weight; an embedding scaled by
// the root of the hidden size; capped scores and logits; a window in every other layer; an MLP gated by tanh GELU;
// scores divided by the root of query_pre_attn_scalar; a tied head.
#include <cmath>

#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {
namespace {

// Reads a cap; null in the file switches the cap off.
double read_cap(ConfigReader& r, const std::string& key, double absent) {
  return r.number(key, 1e-3, 1e6, r.is_null(key) ? 0 : absent);
}

}  // namespace

std::unique_ptr<Model> make_gemma2(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s, {.positions = 8192, .tied = true, .act = nullptr});
  if (!r.has("head_dim")) s.attention.head_size = 256;
  s.topology = Topology::sandwich;
  s.norm.offset = 1;
  s.embedding_scale = std::sqrt(static_cast<double>(s.attention.hidden));
  s.mlp.act = Act::geglu_tanh;
  r.only("hidden_activation", "gelu_pytorch_tanh", "the MLP of this family is gated by it");
  r.ignore({"hidden_act"});  // a field of Gemma 1; Transformers reads hidden_activation
  s.attention.scale = 1 / std::sqrt(r.number("query_pre_attn_scalar", 1e-6, 1e9, 256));
  s.attention.cap = read_cap(r, "attn_logit_softcapping", 50);
  s.head.cap = read_cap(r, "final_logit_softcapping", 30);
  s.attention.qkv_bias = s.attention.out_bias = r.boolean("attention_bias", false);
  const int64_t window = r.integer("sliding_window", 1, 1 << 30, r.is_null("sliding_window") ? 0 : 4096);
  for (int64_t i = 0; i < f.layers; ++i) s.windows.push_back(i % 2 == 0 ? window : 0);
  read_layer_types(r, window, "sliding_window", s);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions);
  r.only("use_bidirectional_attention", false, "a token sees none after it");
  r.ignore({"cache_implementation", "sliding_window_size"});
  set_padding(r, f, 0);
  read_common(r, f);
  s.names.architecture = "Gemma2ForCausalLM";
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
