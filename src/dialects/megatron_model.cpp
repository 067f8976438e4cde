// Finds the model family of the network that Megatron's flags describe.
#include <fmt/format.h>

#include <algorithm>

#include "dialects/megatron_run.h"

namespace ravine {
namespace {

// The properties of a layer in the flags, for programs of any age.
struct MegatronNet {
  bool gated = false, rms = false, rope = false, alibi = false, tied = false;
  bool qkv_bias = false, out_bias = false, mlp_bias = false, embed_norm = false, unit_head = false;
  bool latent = false, gemma = false, head_norms = false, shared = false, softmax_first = false;
  int64_t experts = 0;
};

MegatronNet net_of(const Translation& t, MegatronAge age) {
  const bool classic = age == MegatronAge::classic;
  MegatronNet n;
  const std::string positions = t.text("--position-embedding-type");
  n.gemma = t.is_on("--add-rmsnorm-offset") || t.is_on("--input-embeds-norm") || t.is_on("--geglu") || t.is_on("--gelu-tanh") ||
            t.is_on("--post-norm");
  n.gated = t.is_on("--swiglu") || n.gemma || (classic && !t.is_on("--no-add-gate"));
  n.latent = t.is_on("--multi-head-latent-attention");
  n.head_norms = t.is_on("--qk-layernorm") && !n.latent;
  n.shared = t.is_on("--shared-expert-gate");
  n.softmax_first = t.text("--moe-router-load-balancing-type") == "softmax_topk";
  n.rms = t.text("--normalization") == "RMSNorm";
  n.rope = positions == "rope" || t.is_on("--use-rotary-position-embeddings");
  n.alibi = positions == "alibi";
  n.tied = classic ? t.is_on("--no-untie-embeddings-and-output-weights") : !t.is_on("--untie-embeddings-and-output-weights");
  const bool biases = t.is_on("--add-bias-linear") || (!classic && !t.is_on("--disable-bias-linear"));
  n.mlp_bias = biases;
  n.qkv_bias = biases || t.is_on("--add-qkv-bias");
  n.out_bias = biases || t.is_on("--add-dense-bias");
  n.embed_norm = t.is_on("--embed-layernorm");
  n.unit_head = t.is_on("--lm-norm-weight");
  n.experts = t.whole("--num-experts");
  return n;
}

// Returns model_type of the family with this network; "" if there is none.
std::string family_of(const MegatronNet& n) {
  const bool all = n.qkv_bias && n.out_bias && n.mlp_bias, no_bias = !n.qkv_bias && !n.out_bias && !n.mlp_bias;
  if (n.embed_norm != (n.alibi && !n.rms)) return "";
  if (n.latent) return n.rms && n.gated && n.rope && no_bias && n.experts > 0 && !n.gemma ? "deepseek_v2" : "";
  if (n.gemma) return n.rms && n.rope && no_bias && n.experts == 0 && n.tied ? "gemma2" : "";
  if (n.shared)
    return n.rms && n.gated && n.rope && n.qkv_bias && !n.out_bias && n.experts > 0 && n.softmax_first ? "qwen2_moe" : "";
  if (n.head_norms) return n.rms && n.gated && n.rope && no_bias && n.experts == 0 ? "qwen3" : "";
  if (n.rms && n.gated && n.alibi) return no_bias && n.experts == 0 ? "baichuan" : "";
  if (n.rms && n.gated && n.rope) {
    if (n.experts > 0) return no_bias && !n.unit_head && !n.softmax_first ? "mixtral" : "";
    if (n.unit_head) return no_bias ? "baichuan" : "";
    if (n.qkv_bias == n.out_bias) return "llama";
    return n.qkv_bias ? "qwen2" : "";
  }
  if (n.rms || n.gated || !all || n.experts > 0 || n.unit_head) return "";
  return n.alibi ? "bloom" : n.rope ? "gpt_neox" : "gpt2";
}

// Returns the number of embedding rows: the given one, else the tokenizer's ids padded for the tensor ranks; 0:
// unknown.
int64_t rows_of_net(Translation& t, const MegatronSizes& s, const MegatronJob& job) {
  const bool null = t.text("--tokenizer-type") == "NullTokenizer";  // adds an id for the end of a document
  const std::string tokenizer = megatron_tokenizer(t);
  const int64_t ids = null ? t.whole("--vocab-size") + 1 : job.vocabulary && !tokenizer.empty() ? job.vocabulary(tokenizer) : 0;
  for (const char* key : {"--padded-vocab-size", "--pad-vocab-size-to"}) {
    if (!t.has(key)) continue;
    if (t.whole(key) < ids - (null ? 1 : 0))  // data without a tokenizer may not use this id
      t.refuse(key, fmt::format("{} {}", key, t.whole(key)), fmt::format("each of the {} ids of the tokenizer has a row", ids),
               fmt::format("write {} or more, or leave it out", ids));
    for (const char* other : {"--vocab-size", "--make-vocab-size-divisible-by"})
      if (t.has(other) && !(null && std::string_view(other) == "--vocab-size"))
        t.becomes(other, KeyStatus::inert, fmt::format("{} says how many rows there are", key));
    return t.whole(key);
  }
  if (ids > 0 && !null && t.has("--vocab-size"))
    t.becomes("--vocab-size", KeyStatus::inert, fmt::format("ids are those of the tokenizer, {}", ids));
  const int64_t part = std::max<int64_t>(1, t.whole("--make-vocab-size-divisible-by")) * s.tensor;
  return ids > 0 ? (ids + part - 1) / part * part : t.whole("--vocab-size");
}

// Returns rope_scaling of config.json; null if positions are not scaled.
Json scaling_of(Translation& t) {
  if (t.has("--rotary-seq-len-interpolation-factor"))
    return {{"type", "linear"}, {"factor", t.number("--rotary-seq-len-interpolation-factor")}};
  const std::string type = t.text("--rope-scaling-type");
  if (type.empty()) {
    for (const char* key :
         {"--rope-scaling-factor", "--low-freq-factor", "--high-freq-factor", "--original-max-position-embeddings",
          "--rope-scaling-original-max-position-embeddings", "--rope-scaling-beta-fast", "--rope-scaling-beta-slow",
          "--rope-scaling-mscale", "--rope-scaling-mscale-all-dim"})
      if (t.has(key)) t.becomes(key, KeyStatus::inert, "--rope-scaling-type is not given");
    return nullptr;
  }
  Json out = {{"rope_type", type}, {"factor", t.number("--rope-scaling-factor")}};
  const auto take = [&](const char* key, const char* field, bool needed) {
    if (t.has(key) || !t.value(key).is_null())
      out[field] = t.value(key);
    else if (needed)
      t.refuse(key, fmt::format("--rope-scaling-type {} without {}", type, key), "positions are scaled by it", "give it");
  };
  if (type == "llama3") {
    take("--low-freq-factor", "low_freq_factor", true), take("--high-freq-factor", "high_freq_factor", true);
    take("--original-max-position-embeddings", "original_max_position_embeddings", true);
  } else if (type == "yarn") {
    take("--rope-scaling-original-max-position-embeddings", "original_max_position_embeddings", true);
    take("--rope-scaling-beta-fast", "beta_fast", false), take("--rope-scaling-beta-slow", "beta_slow", false);
    if (t.is_on("--multi-head-latent-attention"))
      take("--rope-scaling-mscale", "mscale", false), take("--rope-scaling-mscale-all-dim", "mscale_all_dim", false);
  }
  if (out.contains("original_max_position_embeddings") && out["original_max_position_embeddings"].is_number())
    out["original_max_position_embeddings"] = static_cast<int64_t>(out["original_max_position_embeddings"].get<double>());
  return out;
}

// Adds the fields that the families of 2024 have in addition to Llama's.
void add_recent_fields(Translation& t, const MegatronNet& n, const std::string& family, Json& c) {
  const auto take = [&](const char* key, const char* field) {
    if (t.has(key)) c[field] = t.value(key);
  };
  if (family == "gemma2") {
    c["hidden_activation"] = "gelu_pytorch_tanh";
    c["query_pre_attn_scalar"] =
        t.has("--query-pre-attn-scalar") ? t.value("--query-pre-attn-scalar") : c.value("head_dim", Json());
    c["attn_logit_softcapping"] = t.has("--attn-logit-softcapping") ? t.value("--attn-logit-softcapping") : Json();
    c["final_logit_softcapping"] = t.has("--output-logit-softcapping") ? t.value("--output-logit-softcapping") : Json();
    c["sliding_window"] = t.has("--interleave-sliding-window") ? t.value("--interleave-sliding-window") : Json();
  }
  if (family == "deepseek_v2") {
    c.erase("num_key_value_heads");
    c["q_lora_rank"] = t.has("--q-lora-rank") ? t.value("--q-lora-rank") : Json();
    take("--kv-lora-rank", "kv_lora_rank"), take("--v-head-dim", "v_head_dim");
    take("--qk-rope-head-dim", "qk_rope_head_dim"), take("--qk-nope-head-dim", "qk_nope_head_dim");
    take("--first-k-dense-replace", "first_k_dense_replace"), take("--moe-layer-freq", "moe_layer_freq");
    const bool groups = t.text("--moe-router-load-balancing-type") == "group_limited_greedy";
    c["topk_method"] = groups ? "group_limited_greedy" : "greedy";
    if (groups) c["n_group"] = t.value("--expert-model-parallel-size"), take("--topk-group", "topk_group");
    c["n_routed_experts"] = n.experts;
    c["n_shared_experts"] = t.whole("--n-shared-experts");
    c["routed_scaling_factor"] = t.has("--routed-scaling-factor") ? t.number("--routed-scaling-factor") : 1.0;
    c["norm_topk_prob"] = t.is_on("--norm-topk-prob");
    c["aux_loss_alpha"] = t.number("--moe-aux-loss-coeff");
    for (const char* field : {"num_local_experts", "router_aux_loss_coef", "output_router_logits"}) c.erase(field);
  }
  if (family == "qwen2_moe") {
    c["num_experts"] = n.experts;
    c.erase("num_local_experts");
    c["norm_topk_prob"] = t.is_on("--norm-topk-prob");
    c["shared_expert_intermediate_size"] = t.whole("--n-shared-experts") * t.whole("--moe-intermediate-size");
  }
  if (family == "deepseek_v2" || family == "qwen2_moe") take("--moe-intermediate-size", "moe_intermediate_size");
  if (family == "mistral") c["sliding_window"] = t.value("--sliding-window");
}

// Returns the form of GELU: the fused one and OpenAI's are the tanh form, the unfused one is exact.
const char* gelu_of(const Translation& t) {
  return t.is_on("--no-bias-gelu-fusion") && !t.is_on("--openai-gelu") ? "gelu" : "gelu_new";
}

Json config_of_net(Translation& t, const MegatronSizes& s, const MegatronJob& job, const MegatronNet& n,
                   const std::string& family) {
  Json c = {{"model_type", family}};
  const int64_t positions = t.whole("--max-position-embeddings");
  const bool swiglu = t.is_on("--swiglu");
  const int64_t width = t.has("--ffn-hidden-size") ? t.whole("--ffn-hidden-size")
                        : swiglu                   ? 8 * s.hidden / 3 / 64 * 64
                                                   : 4 * s.hidden;
  const double eps = t.has("--layernorm-epsilon") ? t.number("--layernorm-epsilon")
                     : t.has("--norm-epsilon")    ? t.number("--norm-epsilon")
                                                  : 1e-5;
  c["hidden_size"] = s.hidden;
  c["num_hidden_layers"] = s.layers;
  c["num_attention_heads"] = s.heads;
  if (family == "gpt2") {
    c["activation_function"] = gelu_of(t);
    c["n_inner"] = width;
    c["max_position_embeddings"] = positions;
    c["layer_norm_epsilon"] = eps;
  } else if (family == "bloom") {
    c["seq_length"] = positions;
    c["layer_norm_epsilon"] = eps;
  } else if (family == "gpt_neox") {
    c["hidden_act"] = gelu_of(t);
    c["intermediate_size"] = width;
    c["max_position_embeddings"] = positions;
    c["layer_norm_eps"] = eps;
    c["use_parallel_residual"] = false;
    c["rotary_pct"] = t.number("--rotary-percent");
    c["rotary_emb_base"] = t.number("--rotary-base");
  } else {
    c["intermediate_size"] = width;
    c[n.alibi ? "model_max_length" : "max_position_embeddings"] = positions;
    c["rms_norm_eps"] = eps;
    if (family != "baichuan") c["num_key_value_heads"] = s.groups;
    if (!n.alibi && family != "baichuan") c["rope_theta"] = t.number("--rotary-base");
    if (n.unit_head) c["z_loss_weight"] = 0;
  }
  if (family == "llama") c["attention_bias"] = n.qkv_bias, c["mlp_bias"] = n.mlp_bias;
  if (t.has("--kv-channels") && s.heads > 0 && !n.latent &&
      (t.whole("--kv-channels") * s.heads != s.hidden || family == "gemma2" || family == "qwen3"))
    c["head_dim"] = t.whole("--kv-channels");
  if ((family == "gemma2" || family == "qwen3") && !c.contains("head_dim") && s.heads > 0) c["head_dim"] = s.hidden / s.heads;
  if (const Json scaling = scaling_of(t); !scaling.is_null()) c["rope_scaling"] = scaling;
  if (n.experts > 0) {
    c["num_local_experts"] = n.experts;
    c["num_experts_per_tok"] = t.whole("--moe-router-topk");
    c["router_aux_loss_coef"] = t.number("--moe-aux-loss-coeff");
    c["output_router_logits"] = t.number("--moe-aux-loss-coeff") > 0;
  }
  add_recent_fields(t, n, family, c);
  c["initializer_range"] = t.number("--init-method-std");
  c["tie_word_embeddings"] = n.tied;
  if (const int64_t rows = rows_of_net(t, s, job); rows > 0) c["vocab_size"] = rows;
  return c;
}

// Refuses flags of GELU that this network cannot follow.
void refuse_other_gelu(Translation& t, const MegatronNet& n, const std::string& family) {
  const char *unfused = "--no-bias-gelu-fusion", *openai = "--openai-gelu";
  if (n.gated && t.is_on(unfused)) t.becomes(unfused, KeyStatus::inert, "a gated MLP has no fused GELU");
  if (n.gated && t.is_on(openai))
    t.refuse(openai, openai, "it replaces the activation that gates the MLP", "leave it out");
  else if (t.is_on(openai) && !t.is_on(unfused))
    t.refuse(openai, fmt::format("{} without {}", openai, unfused), "Megatron fuses its own GELU alone",
             "leave it out: the fused GELU is the same tanh form");
  else if (family == "bloom" && std::string_view(gelu_of(t)) == "gelu")
    t.refuse(unfused, unfused, "BLOOM has tanh GELU, and without the fusion Megatron computes the exact one",
             "leave it out, or write --openai-gelu beside it");
}

// Refuses the flags that contradict Gemma 2, for a network that has other flags of Gemma 2.
void refuse_no_gemma(Translation& t, const MegatronNet& n, MegatronAge age) {
  std::string flag;
  for (const char* key : {"--post-norm", "--input-embeds-norm", "--gelu-tanh", "--geglu", "--add-rmsnorm-offset"})
    if (t.is_on(key)) flag = key;
  const auto no = [&](const std::string& key, const std::string& rule, const std::string& fix) {
    t.refuse(key, fmt::format("{}{} with {}", key, t.has(key) ? "" : " is not given,", flag), "Gemma 2 has " + rule, fix);
  };
  if (!n.tied && age == MegatronAge::classic)
    no("--no-untie-embeddings-and-output-weights", "one matrix as embedding and head", "give it");
  else if (!n.tied)
    no("--untie-embeddings-and-output-weights", "one matrix as embedding and head", "leave it out");
  if (n.experts > 0) no("--num-experts", "no experts", "leave it out");
  if (!n.rms) no("--normalization", "RMSNorm", "write --normalization RMSNorm");
  if (!n.rope) no("--position-embedding-type", "rotary positions", "write --position-embedding-type rope");
  if (n.embed_norm) no("--embed-layernorm", "no norm behind the embedding", "leave it out");
  for (const char* key : {"--add-bias-linear", "--add-qkv-bias", "--add-dense-bias"})
    if (t.is_on(key)) no(key, "no biases", "leave it out");
  if (n.mlp_bias && !t.is_on("--add-bias-linear")) no("--disable-bias-linear", "no biases", "give it");
}

}  // namespace

void set_megatron_model(Translation& t, const MegatronSizes& s, const MegatronJob& job, MegatronAge age) {
  const MegatronNet n = net_of(t, age);
  std::string family = family_of(n);
  if (t.has("--sliding-window") && family == "llama" && !n.qkv_bias && !n.mlp_bias) family = "mistral";
  const auto no = [&](const char* key, const std::string& rule) { t.refuse(key, key, rule, "leave it out"); };
  if (family.empty() && n.gemma && !n.latent) return refuse_no_gemma(t, n, age);
  if (family.empty()) {
    const char* key = n.latent                               ? "--multi-head-latent-attention"
                      : n.shared                             ? "--shared-expert-gate"
                      : n.head_norms                         ? "--qk-layernorm"
                      : n.embed_norm && !(n.alibi && !n.rms) ? "--embed-layernorm"
                      : t.is_on("--add-dense-bias")          ? "--add-dense-bias"
                      : n.unit_head                          ? "--lm-norm-weight"
                      : n.experts > 0                        ? "--num-experts"
                      : n.alibi                              ? "--position-embedding-type"
                                                             : "--normalization";
    no(key, fmt::format("no family has {} with {}, {} positions and {}{}", n.rms ? "RMSNorm" : "LayerNorm",
                        n.gated ? "a gated MLP" : "a plain MLP",
                        n.rope    ? "rotary"
                        : n.alibi ? "ALiBi"
                                  : "learned",
                        n.qkv_bias || n.out_bias || n.mlp_bias ? "biases" : "no biases",
                        n.embed_norm  ? ", and a norm behind the embedding"
                        : n.unit_head ? ", and a head whose rows have length 1"
                                      : ""));
    return;
  }
  if (n.rms && n.gated && n.mlp_bias && family != "llama") no("--add-bias-linear", "this family has no biases in its MLP");
  refuse_other_gelu(t, n, family);
  if (const char* side = "--tokenizer-padding-side"; t.text(side) == "left" && !n.rope)
    t.refuse(side, fmt::format("{} left", side),
             n.alibi ? "ALiBi and padding on the left do not go together, in ModelLink too"
                     : "learned positions of a row begin behind its padding there",
             "write right");
  if (t.is_on("--no-position-embedding")) {
    if (n.rope || n.alibi)
      t.becomes("--no-position-embedding", KeyStatus::inert, "positions are those of --position-embedding-type");
    else
      t.refuse("--no-position-embedding", "--no-position-embedding", "a model here has positions of one kind",
               "write --position-embedding-type rope");
  }
  if (t.has("--rotary-percent") && t.number("--rotary-percent") != 1 && family != "gpt_neox")
    no("--rotary-percent", "this family rotates whole heads");
  if (t.has("--rotary-base") && family == "baichuan" && t.number("--rotary-base") != 10000)
    no("--rotary-base", "this family's base is 10000");
  // Flags that only one family has.
  const auto of = [&](std::initializer_list<const char*> keys, bool has, const char* rule) {
    for (const char* key : keys)
      if (t.has(key) && !has) no(key, rule);
  };
  of({"--sliding-window"}, family == "mistral", "attention of this family sees all that comes before");
  of({"--q-lora-rank", "--kv-lora-rank", "--v-head-dim", "--qk-rope-head-dim", "--qk-nope-head-dim"}, n.latent,
     "it is of --multi-head-latent-attention");
  of({"--query-pre-attn-scalar", "--output-logit-softcapping", "--attn-logit-softcapping", "--interleave-sliding-window"},
     family == "gemma2", "it is of Gemma 2");
  of({"--first-k-dense-replace", "--moe-layer-freq", "--topk-group", "--routed-scaling-factor", "--seq-aux"},
     family == "deepseek_v2", "it is of DeepSeek's experts");
  of({"--n-shared-experts", "--moe-intermediate-size"}, family == "deepseek_v2" || family == "qwen2_moe",
     "experts of this family are as wide as --ffn-hidden-size, and none is shared");
  of({"--norm-topk-prob"}, family == "qwen2_moe", "this family's own code has no choice of it");
  if (family == "gemma2")
    for (const char* key : {"--add-rmsnorm-offset", "--input-embeds-norm", "--post-norm", "--gelu-tanh"})
      if (!t.is_on(key) && !(std::string_view(key) == "--gelu-tanh" && t.is_on("--geglu")))
        t.refuse(key, fmt::format("{} is not given", key), "Gemma 2 is the one of its families that is here, and has it",
                 "give it, or train a model of another family");
  if (family == "gemma2" && t.is_on("--geglu")) no("--geglu", "the MLP of Gemma 2 is gated by tanh GELU: --gelu-tanh");
  for (const char* key : {"--moe-device-level-aux-loss-coeff", "--moe-comm-aux-loss-coeff"})
    if (t.number(key) != 0)
      t.refuse(key, fmt::format("{} {}", key, t.number(key)), "the loss of the load is that of experts", "leave it out");
  if (s.groups != s.heads && family != "llama" && family != "qwen2" && family != "mixtral" && family != "mistral" &&
      family != "gemma2" && family != "qwen2_moe" && family != "qwen3")
    no("--group-query-attention", "in this family every head has its own keys and values");
  if (family == "bloom" && t.has("--ffn-hidden-size") && t.whole("--ffn-hidden-size") != 4 * s.hidden)
    no("--ffn-hidden-size", "the MLP of this family has 4 times the hidden size");
  if (n.experts > 0 && t.whole("--expert-interval") != 1) no("--expert-interval", "every layer has experts");
  t.set("model.config", config_of_net(t, s, job, n, family), "--num-layers");
}

}  // namespace ravine
