// The family that a network of Megatron's flags belongs to.
#include <fmt/format.h>

#include <algorithm>

#include "dialects/megatron_run.h"

namespace ravine {
namespace {

// What the flags say of a layer, whatever the age of the program.
struct MegatronNet {
  bool gated = false, rms = false, rope = false, alibi = false, tied = false;
  bool qkv_bias = false, out_bias = false, mlp_bias = false, embed_norm = false, unit_head = false;
  int64_t experts = 0;
};

MegatronNet net_of(const Translation& t, MegatronAge age) {
  const bool classic = age == MegatronAge::classic;
  MegatronNet n;
  const std::string positions = t.text("--position-embedding-type");
  n.gated = t.is_on("--swiglu") || (classic && !t.is_on("--no-add-gate"));
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

// model_type of the family that is built so; "" if none is.
std::string family_of(const MegatronNet& n) {
  const bool all = n.qkv_bias && n.out_bias && n.mlp_bias, no_bias = !n.qkv_bias && !n.out_bias && !n.mlp_bias;
  if (n.embed_norm != (n.alibi && !n.rms)) return "";
  if (n.rms && n.gated && n.alibi) return no_bias && n.experts == 0 ? "baichuan" : "";
  if (n.rms && n.gated && n.rope) {
    if (n.experts > 0) return no_bias && !n.unit_head ? "mixtral" : "";
    if (n.unit_head) return no_bias ? "baichuan" : "";
    if (n.qkv_bias == n.out_bias) return "llama";
    return n.qkv_bias ? "qwen2" : "";
  }
  if (n.rms || n.gated || !all || n.experts > 0 || n.unit_head) return "";
  return n.alibi ? "bloom" : n.rope ? "gpt_neox" : "gpt2";
}

// Rows of the embedding: as given, else the tokenizer's ids and what fills them up for the tensor ranks; 0: not known.
int64_t rows_of_net(const Translation& t, const MegatronSizes& s, const MegatronJob& job) {
  for (const char* key : {"--padded-vocab-size", "--pad-vocab-size-to"})
    if (t.has(key)) return t.whole(key);
  const bool null = t.text("--tokenizer-type") == "NullTokenizer";  // its end of document is one id more
  const std::string tokenizer = megatron_tokenizer(t);
  const int64_t ids = null ? t.whole("--vocab-size") + 1 : job.vocabulary && !tokenizer.empty() ? job.vocabulary(tokenizer) : 0;
  const int64_t part = std::max<int64_t>(1, t.whole("--make-vocab-size-divisible-by")) * s.tensor;
  return ids > 0 ? (ids + part - 1) / part * part : t.whole("--vocab-size");
}

Json config_of_net(const Translation& t, const MegatronSizes& s, const MegatronJob& job, const MegatronNet& n,
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
    c["n_inner"] = width;
    c["max_position_embeddings"] = positions;
    c["layer_norm_epsilon"] = eps;
  } else if (family == "bloom") {
    c["seq_length"] = positions;
    c["layer_norm_epsilon"] = eps;
  } else if (family == "gpt_neox") {
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
  if (t.has("--kv-channels") && s.heads > 0 && t.whole("--kv-channels") * s.heads != s.hidden)
    c["head_dim"] = t.whole("--kv-channels");
  if (t.has("--rotary-seq-len-interpolation-factor"))
    c["rope_scaling"] = {{"type", "linear"}, {"factor", t.number("--rotary-seq-len-interpolation-factor")}};
  if (n.experts > 0) {
    c["num_local_experts"] = n.experts;
    c["num_experts_per_tok"] = t.whole("--moe-router-topk");
    c["router_aux_loss_coef"] = t.number("--moe-aux-loss-coeff");
    c["output_router_logits"] = t.number("--moe-aux-loss-coeff") > 0;
  }
  c["initializer_range"] = t.number("--init-method-std");
  c["tie_word_embeddings"] = n.tied;
  if (const int64_t rows = rows_of_net(t, s, job); rows > 0) c["vocab_size"] = rows;
  return c;
}

}  // namespace

void set_megatron_model(Translation& t, const MegatronSizes& s, const MegatronJob& job, MegatronAge age) {
  const MegatronNet n = net_of(t, age);
  const std::string family = family_of(n);
  const auto no = [&](const char* key, const std::string& rule) { t.refuse(key, key, rule, "leave it out"); };
  if (family.empty()) {
    const char* key = n.embed_norm && !(n.alibi && !n.rms) ? "--embed-layernorm"
                      : t.is_on("--add-dense-bias")        ? "--add-dense-bias"
                      : n.unit_head                        ? "--lm-norm-weight"
                      : n.experts > 0                      ? "--num-experts"
                      : n.alibi                            ? "--position-embedding-type"
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
  if (t.has("--rotary-percent") && t.number("--rotary-percent") != 1 && family != "gpt_neox")
    no("--rotary-percent", "this family rotates whole heads");
  if (t.has("--rotary-base") && family == "baichuan" && t.number("--rotary-base") != 10000)
    no("--rotary-base", "this family's base is 10000");
  if (s.groups != s.heads && family != "llama" && family != "qwen2" && family != "mixtral")
    no("--group-query-attention", "in this family every head has its own keys and values");
  if (family == "bloom" && t.has("--ffn-hidden-size") && t.whole("--ffn-hidden-size") != 4 * s.hidden)
    no("--ffn-hidden-size", "the MLP of this family has 4 times the hidden size");
  if (n.experts > 0 && t.whole("--expert-interval") != 1) no("--expert-interval", "every layer has experts");
  t.set("model.config", config_of_net(t, s, job, n, family), "--num-layers");
}

}  // namespace ravine
