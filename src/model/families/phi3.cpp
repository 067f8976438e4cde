// Phi-3, 3.5 and Phi-4-mini (Microsoft 2024, 2025): Llama with q, k, v in one matrix of the files and gate, up in
// another. Further: LongRoPE, rotation of a part of each head, and a window. Each sequence uses the long factors by its
// own length; Transformers uses the longest sequence of the batch.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {

std::unique_ptr<Model> make_phi3(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s, {.eps = 1e-5, .positions = 4096});
  s.attention.window = r.integer("sliding_window", 1, 1 << 30, 0);
  s.rope = read_rope(r, s.attention.head_size, f.max_positions, r.number("partial_rotary_factor", 1e-3, 1, 1));
  if (s.rope->dims < 2 || s.rope->dims % 2)
    r.refuse("partial_rotary_factor", fmt::format("it must give an even number of dims of {}", s.attention.head_size),
             "correct the field");
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"}) r.only(key, false, "this family has no biases");
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) r.only(key, 1, "nothing reads another value");
  set_padding(r, f, 32000);
  read_common(r, f);
  s.names.architecture = "Phi3ForCausalLM";
  s.names.modules = {{"self_attn.q_proj", "self_attn.qkv_proj"},
                     {"self_attn.k_proj", "self_attn.qkv_proj"},
                     {"self_attn.v_proj", "self_attn.qkv_proj"},
                     {"mlp.gate_proj", "mlp.gate_up_proj"},
                     {"mlp.up_proj", "mlp.gate_up_proj"}};
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine
