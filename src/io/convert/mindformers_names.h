// The two spellings of MindSpore Transformers beside ours: legacy Llama and mcore.
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
inline constexpr SpellingPair kCoreLayer[] = {{"input_layernorm.", "input_layernorm."},
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
                                              {"fused_qkv.", "self_attention.linear_qkv."}};

// States of optimizers (classes of MindFormers and of mindspore.nn.optim), which stand before the name of their weight.
struct StateSpelling {
  OptimizerType optimizer;
  StateKind kind;
  const char* theirs;
  bool written = true;  // false: files of MindFormers are read, and those written here have the row before
};
inline constexpr StateSpelling kStateSpellings[] = {
    {OptimizerType::adamw, StateKind::first_moment, "adam_m."}, {OptimizerType::adamw, StateKind::second_moment, "adam_v."},
    {OptimizerType::adam, StateKind::first_moment, "moment1."}, {OptimizerType::adam, StateKind::second_moment, "moment2."},
    {OptimizerType::lamb, StateKind::first_moment, "lamb_m."},  {OptimizerType::lamb, StateKind::second_moment, "lamb_v."},
    {OptimizerType::sgd, StateKind::momentum, "accum."},        {OptimizerType::sgd, StateKind::momentum, "moments.", false}};
// Of SGD, beside accum: 0 where accum counts, 1 before its first step.
inline constexpr const char* kBeforeFirst = "stat.";

template <size_t N>
std::string renamed(const std::string& name, const SpellingPair (&table)[N], bool to_ours) {
  for (const SpellingPair& p : table) {
    const std::string_view from = to_ours ? p.theirs : p.ours, to = to_ours ? p.ours : p.theirs;
    if (from.ends_with('.') ? name.starts_with(from) : name == from) return std::string(to) + name.substr(from.size());
  }
  return "";
}

// A layer's prefix with its number, "model.layers.12." -> 16; npos if there is none.
inline size_t layer_end(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::string::npos;
  const size_t dot = name.find('.', prefix.size());
  if (dot == std::string::npos || dot == prefix.size() || name.find_first_not_of("0123456789", prefix.size()) != dot)
    return std::string::npos;
  return dot + 1;
}

// Our name of one of theirs; "" for a name that MindFormers does not use.
std::string our_name(const std::string& name);
// Whether a name is one of MindFormers and of nobody else.
bool is_mindformers_name(const std::string& name);

}  // namespace ravine
