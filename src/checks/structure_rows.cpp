// Rows of the checklist on the network: sizes, norms, dropout, fused calculations, experts.
#include <fmt/format.h>

#include <algorithm>

#include "checks/checklist.h"

namespace ravine {
namespace {

constexpr const char* kShape = "The weights have another shape, so the two are not the same network.";

std::string of_experts(const char* key) { return std::string("moe_config.") + key; }

// Adds a row on a property of the network. field: its name in config.json; keys: its names in other programs.
void add(Checklist& rows, const char* name, const char* effect, const char* field, const std::vector<std::string>& keys,
         const std::function<std::string(const Side&, const DecoderSpec&)>& read) {
  rows.add(name, effect, [&](const Side& s) -> Cell {
    const DecoderSpec* spec = s.spec();
    if (!spec) return {};
    return {read(s, *spec), s.where("model.config", keys, field)};
  });
}

std::string rope_text(const DecoderSpec& s) {
  if (s.attention.alibi) return "ALiBi";
  if (!s.rope) return s.position_table ? "learned" : "none";
  static constexpr const char* kTypes[] = {"plain", "linear", "dynamic", "yarn", "llama3", "longrope"};
  const RopeSettings& r = *s.rope;
  std::string text = fmt::format("theta {}", r.theta);
  if (r.type != RopeSettings::plain) text += fmt::format(", {} by {}", kTypes[r.type], r.factor);
  if (r.share != 1) text += fmt::format(", {} of a head", r.share);
  if (r.interleaved) text += ", pairs of neighbours";
  return text;
}

std::string bias_text(const DecoderSpec& s) {
  std::string text;
  for (const auto& [on, name] :
       {std::pair{s.attention.qkv_bias, "qkv"}, {s.attention.out_bias, "attention output"}, {s.mlp.bias, "mlp"}})
    if (on) text += (text.empty() ? "" : ", ") + std::string(name);
  return text.empty() ? "none" : text;
}

std::string act_text(const DecoderSpec& s) {
  static constexpr const char* kNames[] = {"swiglu", "geglu_tanh", "gelu", "gelu_tanh"};
  return kNames[static_cast<size_t>(s.mlp.act)];
}

void add_sizes(Checklist& rows) {
  rows.begin_group("structure");
  add(rows, "num_layers", kShape, "num_hidden_layers", {"--num-layers", of_model("num_layers"), of_model("num_hidden_layers")},
      [](const Side& s, const DecoderSpec&) { return std::to_string(s.built->facts().layers); });
  add(rows, "num_heads", kShape, "num_attention_heads",
      {"--num-attention-heads", of_model("num_heads"), of_model("num_attention_heads")},
      [](const Side&, const DecoderSpec& d) { return std::to_string(d.attention.heads); });
  add(rows, "n_kv_heads", "Other heads of queries share a key and a value.", "num_key_value_heads",
      {"--num-query-groups", of_model("n_kv_heads"), of_model("num_key_value_heads"), of_model("num_query_groups")},
      [](const Side&, const DecoderSpec& d) { return std::to_string(d.attention.kv_heads); });
  add(rows, "hidden_size", kShape, "hidden_size", {"--hidden-size", of_model("hidden_size")},
      [](const Side& s, const DecoderSpec&) { return std::to_string(s.built->facts().hidden); });
  add(rows, "head_size", kShape, "head_dim", {"--kv-channels", of_model("head_dim"), of_model("kv_channels")},
      [](const Side&, const DecoderSpec& d) { return std::to_string(d.attention.head_size); });
  add(rows, "intermediate_size", kShape, "intermediate_size",
      {"--ffn-hidden-size", of_model("intermediate_size"), of_model("ffn_hidden_size")},
      [](const Side&, const DecoderSpec& d) { return std::to_string(d.mlp.width); });
  add(rows, "hidden_act", "The MLP is another function.", "hidden_act",
      {"--swiglu", "--geglu", "--no-add-gate", of_model("hidden_act")},
      [](const Side&, const DecoderSpec& d) { return act_text(d); });
  add(rows, "normalization", "RMSNorm does not subtract the mean, LayerNorm does.", "model_type",
      {"--normalization", of_model("normalization")}, [](const Side&, const DecoderSpec& d) {
        return std::string(d.norm.kind == NormSpec::rms ? "RMSNorm" : "LayerNorm") +
               (d.norm.offset != 0 ? ", scaled by 1 + weight" : "");
      });
  add(rows, "rms_norm_eps", "Norms of small activations differ; the difference grows with depth.", "rms_norm_eps",
      {"--norm-epsilon", "--layernorm-epsilon", of_model("rms_norm_eps"), of_model("layernorm_epsilon")},
      [](const Side&, const DecoderSpec& d) { return shortest_text(d.norm.eps); });
  add(rows, "rotary_base", "Queries and keys are rotated by other angles, so attention differs from the first step.",
      "rope_theta",
      {"--rotary-base", "--position-embedding-type", "--use-rotary-position-embeddings", "--rope-scaling-type",
       of_model("theta"), of_model("rope_theta"), of_model("rotary_base"), of_model("scaling_factor"),
       of_model("extend_method")},
      [](const Side&, const DecoderSpec& d) { return rope_text(d); });
  add(rows, "linear_bias", "One side has parameters that the other lacks.", "attention_bias",
      {"--disable-bias-linear", "--add-bias-linear", "--add-qkv-bias", "--add-dense-bias", of_model("qkv_has_bias"),
       of_model("add_qkv_bias"), of_model("attention_bias"), of_model("attn_proj_has_bias")},
      [](const Side&, const DecoderSpec& d) { return bias_text(d); });
  add(rows, "tie_word_embeddings", "The gradient of the head is added to that of the embedding on one side alone.",
      "tie_word_embeddings",
      {"--untie-embeddings-and-output-weights", "--no-untie-embeddings-and-output-weights", of_model("tie_word_embeddings")},
      [](const Side&, const DecoderSpec& d) { return std::string(d.head.tied ? "tied" : "untied"); });
  add(rows, "vocab_size", "The softmax of the loss has another number of terms.", "vocab_size",
      {"--padded-vocab-size", "--pad-vocab-size-to", "--vocab-size", "--make-vocab-size-divisible-by", of_model("vocab_size")},
      [](const Side& s, const DecoderSpec&) { return s.rows_known ? std::to_string(s.built->facts().vocabulary) : ""; });
  // With rotary positions the number limits nothing that is computed, so only settings of one program are compared.
  rows.add("max_position_embeddings", "Learned positions have another number of rows.", [](const Side& s) -> Cell {
    const DecoderSpec* spec = s.spec();
    if (!spec || !s.model.is_object() || !s.model.contains("max_position_embeddings")) return {};
    return {
        s.model["max_position_embeddings"].dump(),
        s.where("model.config", {"--max-position-embeddings", of_model("max_position_embeddings")}, "max_position_embeddings"),
        !spec->position_table};
  });
  add(rows, "attention_window", "Tokens see other tokens.", "sliding_window", {"--sliding-window", of_model("sliding_window")},
      [](const Side& s, const DecoderSpec& d) {
        std::string text;
        for (int64_t i = 0; i < s.built->facts().layers; ++i)
          if (d.windowed()) text += (i > 0 ? ", " : "") + std::to_string(d.window(i));
        return text.empty() ? "none" : text;
      });
  const auto dropout = [&](const char* name, auto member, std::vector<std::string> keys) {
    const std::string option = std::string("train.") + (std::string(name) == "dropout" ? "dropout" : name);
    rows.add(name, "Random masks differ between programs, so the losses differ from the first step.", [&](const Side& s) {
      return Cell{shortest_text(s.config.train.*member), s.where(option, keys, "")};
    });
    if (rows.a().config.train.*member > 0 && rows.b().config.train.*member > 0)
      rows.advise("two programs draw other masks: set it to 0 on both sides while they are compared");
  };
  dropout("dropout", &TrainOptions::dropout, {"--hidden-dropout", of_model("hidden_dropout")});
  dropout("attention_dropout", &TrainOptions::attention_dropout, {"--attention-dropout", of_model("attention_dropout")});
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// The switch of a fused calculation in each program.
struct FusedRow {
  const char *name, *op;
  std::vector<std::string> megatron_on, megatron_off, mindformers;
  bool megatron_default;  // but for attention, versions of Megatron and its libraries differ in it
};

Cell fused_cell(const Side& s, const FusedRow& row) {
  switch (s.program) {
    case Program::ravine: {
      const bool on = !contains(s.config.precision.unfused, row.op);
      return {switch_text(on), s.where("precision.unfused", {}), on};
    }
    case Program::megatron: {
      for (const std::string& key : row.megatron_on)
        if (s.is_on(key)) return {switch_text(true), s.where("", {key})};
      for (const std::string& key : row.megatron_off)
        if (s.is_on(key)) return {switch_text(false), s.where("", {key})};
      if (std::string_view(row.name) == "fused_attention" && s.sets("--attention-backend"))
        return {switch_text(s.text("--attention-backend") == "flash" || s.text("--attention-backend") == "fused"),
                s.where("", {"--attention-backend"})};
      return {switch_text(row.megatron_default), s.where("", {}), row.megatron_default};
    }
    case Program::mindformers: {
      if (row.mindformers.empty()) return {switch_text(true), "MindFormers has one form", true};
      for (const std::string& key : row.mindformers)
        if (s.sets(of_model(key.c_str())))
          return {switch_text(s.is_on(of_model(key.c_str()))), s.where("", {of_model(key.c_str())})};
      return {switch_text(!contains(s.config.precision.unfused, row.op)), s.where("", {}),
              row.mindformers[0] == "fused_rms_norm"};
    }
    case Program::trainer:
      break;
  }
  if (std::string_view(row.name) == "fused_attention") {
    const std::string kind = s.text("--attn_implementation");
    const Json stored = s.model.is_object() ? s.model.value("_attn_implementation", Json()) : Json();
    const std::string word = !kind.empty() ? kind : stored.is_string() ? stored.get<std::string>() : "sdpa";
    return {switch_text(word != "eager"), s.where("", {"--attn_implementation"}, "_attn_implementation"), kind.empty()};
  }
  if (s.is_on("--use_liger_kernel")) return {switch_text(true), s.where("", {"--use_liger_kernel"})};
  return {switch_text(false), s.where("", {}), true};
}

void add_fused(Checklist& rows) {
  rows.begin_group("fused calculations");
  const std::vector<FusedRow> all = {
      {"fused_attention", "attention", {"--use-flash-attn", "--use-fusion-attn-v2"}, {}, {"use_flash_attention"}, false},
      {"fused_rope",
       "rope",
       {"--use-fused-rotary-pos-emb"},
       {"--no-rope-fusion"},
       {"use_fused_rope", "apply_rope_fusion"},
       true},
      {"fused_norm", "add_rms_norm", {"--use-fused-rmsnorm"}, {}, {"fused_rms_norm"}, true},
      {"fused_swiglu",
       "swiglu",
       {"--use-fused-swiglu"},
       {"--no-bias-swiglu-fusion"},
       {"use_fused_swiglu", "bias_swiglu_fusion"},
       true},
      {"fused_qkv", "qkv", {}, {}, {"qkv_concat"}, true},
  };
  for (const FusedRow& row : all)
    rows.add(row.name, "The same formula in another order of sums and roundings. On one kind of hardware use the same set.",
             [&](const Side& s) {
               Cell cell = fused_cell(s, row);
               // A row of weights side by side makes the products of its parts, bit for bit.
               if (std::string_view(row.name) == "fused_qkv") cell.fixed = true;
               return cell;
             });
  rows.add_summary("fused", "The same formulas in another order of sums and roundings: see the rows of single calculations.");
}

// Adds a row on experts. A side without experts has "no experts".
void add_expert(Checklist& rows, const char* name, const char* effect, const char* option, const char* field,
                const std::vector<std::string>& keys, const std::function<std::string(const Side&, const MoeSpec&)>& read) {
  rows.add(name, effect, [&](const Side& s) -> Cell {
    const DecoderSpec* spec = s.spec();
    if (!spec) return {};
    if (!spec->moe) return {"no experts", s.where("model.config", {"--num-experts", of_experts("expert_num")}, "model_type")};
    return {read(s, *spec->moe), s.where(option, keys, field)};
  });
}

std::string drop_text(const Side& s) {
  const MoeOptions& moe = s.config.moe;
  if (moe.capacity_factor <= 0) return "none";
  return fmt::format("{}{}", name(moe.drop), moe.pad_to_capacity ? ", padded to the capacity" : "");
}

void add_experts(Checklist& rows) {
  rows.begin_group("experts");
  add_expert(rows, "expert_num", kShape, "model.config", "num_local_experts",
             {"--num-experts", of_experts("expert_num"), of_model("n_routed_experts"), of_model("num_experts")},
             [](const Side&, const MoeSpec& m) { return std::to_string(m.routing.experts); });
  add_expert(rows, "num_experts_chosen", "A token is computed by another number of experts.", "model.config",
             "num_experts_per_tok", {"--moe-router-topk", of_experts("num_experts_chosen"), of_model("num_experts_per_tok")},
             [](const Side&, const MoeSpec& m) { return std::to_string(m.routing.top_k); });
  add_expert(
      rows, "expert_size", kShape, "model.config", "moe_intermediate_size",
      {"--moe-intermediate-size", "--ffn-hidden-size", of_experts("moe_intermediate_size"), of_model("intermediate_size")},
      [](const Side&, const MoeSpec& m) { return std::to_string(m.width); });
  add_expert(rows, "capacity_factor", "Other tokens are dropped by full experts.", "moe.capacity_factor", "",
             {"--moe-expert-capacity-factor", "--moe-train-capacity-factor", of_experts("capacity_factor")},
             [](const Side& s, const MoeSpec&) {
               return s.config.moe.capacity_factor > 0 ? shortest_text(s.config.moe.capacity_factor) : "no limit";
             });
  add_expert(rows, "aux_loss_factor", "The printed loss has another term, and routers get other gradients.", "moe.aux_loss",
             "router_aux_loss_coef", {"--moe-aux-loss-coeff", of_experts("aux_loss_factor"), of_experts("aux_loss_factors")},
             [](const Side&, const MoeSpec& m) { return m.losses.balances() ? shortest_text(m.losses.balance_coef) : "0"; });
  const DecoderSpec *a = rows.a().spec(), *b = rows.b().spec();
  if (a && b && a->moe && b->moe && a->moe->losses.balances() && b->moe->losses.balances())
    rows.advise(a->moe->losses.balance_coef >= 0.05
                    ? "it should be below 0.05, and 0 while programs are compared"
                    : "programs print this loss in other ways: set it to 0 while they are compared");
  add_expert(rows, "z_loss", "The printed loss has another term, and routers get other gradients.", "moe.z_loss", "",
             {"--moe-z-loss-coeff", of_experts("z_loss_factor")},
             [](const Side&, const MoeSpec& m) { return shortest_text(m.losses.z_coef); });
  add_expert(rows, "enable_sdrop", "Other tokens are dropped: by position, by rank or by weight.", "moe.drop", "",
             {"--moe-token-drop-policy", "--moe-pad-expert-input-to-capacity", of_experts("enable_sdrop")},
             [](const Side& s, const MoeSpec&) { return drop_text(s); });
  add_expert(rows, "router_dense_type", "Near ties of experts are decided in other ways.", "moe.router_dtype", "",
             {of_experts("router_dense_type"), of_model("router_dense_type")}, [](const Side& s, const MoeSpec&) {
               for (const std::string& key : {of_experts("router_dense_type"), of_model("router_dense_type")}) {
                 const std::string type = s.text(key);
                 if (type == "float16") return std::string("f16");
                 if (type == "bfloat16") return std::string("bf16");
               }
               return std::string(name(s.config.moe.router_dtype));
             });
  add_expert(rows, "use_shared_expert_gating", "The output of shared experts is weighted on one side alone.", "moe.shared_gate",
             "shared_expert_gate", {"--shared-expert-gate", of_experts("use_shared_expert_gating")},
             [](const Side&, const MoeSpec& m) {
               return std::string(m.shared.width == 0 ? "no shared experts" : m.shared_gate ? "gated" : "plain");
             });
  rows.add("use_fused_ops_topkrouter", "Indices of experts are computed by another operator. It acts with enable_sdrop alone.",
           [&](const Side& s) -> Cell {
             if (!s.spec()) return {};
             if (!s.spec()->moe) return {"no experts", s.where("model.config", {"--num-experts"}, "model_type")};
             const std::string key = of_experts("use_fused_ops_topkrouter");
             return {switch_text(s.is_on(key)), s.where("", {key}), s.program != Program::mindformers};
           });
}

}  // namespace

void add_structure_rows(Checklist& rows) {
  add_sizes(rows);
  add_fused(rows);
  add_experts(rows);
}

}  // namespace ravine
