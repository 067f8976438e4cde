// Tables of Ravine's names and the two spellings of MindSpore Transformers: legacy Llama and mcore.
#pragma once
#include <string>
#include <string_view>

#include "config/choices.h"
#include "io/convert/weights.h"

namespace ravine {

struct SpellingPair {
  const char *ours, *theirs;
};
inline constexpr SpellingPair kLegacyTop[] = {{"model.embed_tokens.weight", "model.tok_embeddings.embedding_weight"},
                                              {"model.norm.", "model.norm_out."},
                                              {"lm_head.weight", "lm_head.weight"}};
inline constexpr SpellingPair kCoreTop[] = {{"model.embed_tokens.weight", "embedding.word_embeddings.weight"},
                                            {"model.norm.", "decoder.final_layernorm."},
                                            {"lm_head.weight", "output_layer.weight"}};
inline constexpr SpellingPair kLegacyLayer[] = {{"input_layernorm.", "attention_norm."},
                                                {"post_attention_layernorm.", "ffn_norm."},
                                                {"self_attn.q_proj.", "attention.wq."},
                                                {"self_attn.k_proj.", "attention.wk."},
                                                {"self_attn.v_proj.", "attention.wv."},
                                                {"self_attn.o_proj.", "attention.wo."},
                                                {"mlp.gate_proj.", "feed_forward.w1."},
                                                {"mlp.down_proj.", "feed_forward.w2."},
                                                {"mlp.up_proj.", "feed_forward.w3."},
                                                {"mlp.gate.", "feed_forward.routed_experts.router.dense."},
                                                {"mlp.experts.gate_proj.", "feed_forward.routed_experts.ffn.w1."},
                                                {"mlp.experts.down_proj.", "feed_forward.routed_experts.ffn.w2."},
                                                {"mlp.experts.up_proj.", "feed_forward.routed_experts.ffn.w3."},
                                                {"mlp.shared_expert.gate_proj.", "feed_forward.shared_experts.w1."},
                                                {"mlp.shared_expert.down_proj.", "feed_forward.shared_experts.w2."},
                                                {"mlp.shared_expert.up_proj.", "feed_forward.shared_experts.w3."},
                                                {"mlp.shared_expert_gate.", "feed_forward.shared_experts_gate."},
                                                {"fused_qkv.", "attention.w_qkv."},
                                                {"fused_gate_up.", "feed_forward.w_gate_hidden."}};
// Names in Mixtral (research/mixtral/convert_weight.py) that differ from the names in kLegacyLayer.
inline constexpr SpellingPair kMixtralLayer[] = {{"mlp.gate.", "feed_forward.router.dense."},
                                                 {"mlp.experts.gate_proj.", "feed_forward.ffn.w1."},
                                                 {"mlp.experts.down_proj.", "feed_forward.ffn.w2."},
                                                 {"mlp.experts.up_proj.", "feed_forward.ffn.w3."}};
inline constexpr SpellingPair kCoreLayer[] = {
    {"input_layernorm.", "input_layernorm."},
    {"post_attention_layernorm.", "pre_mlp_layernorm."},
    {"self_attn.q_proj.", "self_attention.linear_q."},
    {"self_attn.k_proj.", "self_attention.linear_k."},
    {"self_attn.v_proj.", "self_attention.linear_v."},
    {"self_attn.o_proj.", "self_attention.linear_proj."},
    {"self_attn.q_norm.", "self_attention.q_layernorm."},
    {"self_attn.k_norm.", "self_attention.k_layernorm."},
    {"mlp.gate_proj.", "mlp.gating."},
    {"mlp.up_proj.", "mlp.linear_fc1."},
    {"mlp.down_proj.", "mlp.linear_fc2."},
    {"self_attn.q_a_proj.", "self_attention.linear_q_down_proj."},
    {"self_attn.q_b_proj.", "self_attention.linear_q_up_proj."},
    {"self_attn.kv_a_proj_with_mqa.", "self_attention.linear_kv_down_proj."},
    {"self_attn.kv_b_proj.", "self_attention.linear_kv_up_proj."},
    {"self_attn.q_a_layernorm.", "self_attention.q_layernorm."},  // with latent attention
    {"self_attn.kv_a_layernorm.", "self_attention.kv_layernorm."},
    {"mlp.gate.weight", "mlp.router.weight.weight"},
    {"mlp.gate.e_score_correction_bias", "mlp.router.expert_bias"},
    {"mlp.shared_experts.gate_proj.", "mlp.shared_experts.gating."},
    {"mlp.shared_experts.up_proj.", "mlp.shared_experts.linear_fc1."},
    {"mlp.shared_experts.down_proj.", "mlp.shared_experts.linear_fc2."},
    {"mlp.experts.gate_proj.", "mlp.experts.gating."},  // one expert's: after its number
    {"mlp.experts.up_proj.", "mlp.experts.linear_fc1."},
    {"mlp.experts.down_proj.", "mlp.experts.linear_fc2."},
    {"fused_qkv.", "self_attention.linear_qkv."}};

// A prefix of optimizer states in MindFormers' files (classes of MindFormers and of mindspore.nn.optim), before the
// name of their weight.
struct StateSpelling {
  OptimizerType optimizer;
  StateKind kind;
  const char* theirs;
  bool written = true;  // false: read only; Ravine writes the prefix of the row before
};
inline constexpr StateSpelling kStateSpellings[] = {
    {OptimizerType::adamw, StateKind::first_moment, "adam_m."}, {OptimizerType::adamw, StateKind::second_moment, "adam_v."},
    {OptimizerType::adam, StateKind::first_moment, "moment1."}, {OptimizerType::adam, StateKind::second_moment, "moment2."},
    {OptimizerType::lamb, StateKind::first_moment, "lamb_m."},  {OptimizerType::lamb, StateKind::second_moment, "lamb_v."},
    {OptimizerType::sgd, StateKind::momentum, "accum."},        {OptimizerType::sgd, StateKind::momentum, "moments.", false}};
// Prefix of SGD's second state besides accum. Its value is 0 if accum is used, and 1 before the first step.
inline constexpr const char* kBeforeFirst = "stat.";

template <size_t N>
std::string renamed(const std::string& name, const SpellingPair (&table)[N], bool to_ours) {
  for (const SpellingPair& p : table) {
    const std::string_view from = to_ours ? p.theirs : p.ours, to = to_ours ? p.ours : p.theirs;
    if (from.ends_with('.') ? name.starts_with(from) : name == from) return std::string(to) + name.substr(from.size());
  }
  return "";
}

// Removes the expert's number from the name of a matrix, and returns it: "mlp.experts.12.gating.weight" becomes
// "mlp.experts.gating.weight", returns 12. Returns -1 for other names.
inline int64_t take_expert(std::string& suffix) {
  constexpr std::string_view kExperts = "mlp.experts.";
  if (!suffix.starts_with(kExperts)) return -1;
  const size_t dot = suffix.find('.', kExperts.size());
  if (dot == std::string::npos || dot == kExperts.size() || dot > kExperts.size() + 6 ||
      suffix.find_first_not_of("0123456789", kExperts.size()) != dot)
    return -1;
  const int64_t number = std::stoll(suffix.substr(kExperts.size(), dot - kExperts.size()));
  suffix.erase(kExperts.size(), dot + 1 - kExperts.size());
  return number;
}

// Returns the length of a name's beginning with `prefix` and the layer number: 16 for "model.layers.12."; npos if the
// name begins otherwise.
inline size_t layer_end(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::string::npos;
  const size_t dot = name.find('.', prefix.size());
  if (dot == std::string::npos || dot == prefix.size() || name.find_first_not_of("0123456789", prefix.size()) != dot)
    return std::string::npos;
  return dot + 1;
}

}  // namespace ravine
