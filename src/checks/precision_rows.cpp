// Rows of the checklist on mixed precision: the number format in which each kind of operation computes, program by
// program. Sources: Megatron-LM (transformer_config, fused layers), MindSpore Transformers (models/llama), Transformers
// (modeling_llama, autocast), DeepSpeed (bf16_optimizer).
#include <fmt/format.h>

#include <map>

#include "base/text.h"
#include "checks/checklist.h"

namespace ravine {
namespace {

// Returns Ravine's name of a type that a key of MindFormers sets; "" if it sets none.
std::string mind_type(const Side& s, const std::vector<std::string>& keys) {
  static const std::map<std::string, std::string> kTypes = {{"float32", "f32"}, {"float16", "f16"}, {"bfloat16", "bf16"}};
  for (const std::string& key : keys)
    if (const auto found = kTypes.find(s.text(of_model(key.c_str()))); found != kTypes.end()) return found->second;
  return "";
}

// An operation whose number format the programs choose. `otherwise`: the type in Ravine without a rule; "compute" is
// the type of the products.
struct Operation {
  const char *name, *effect;
  const char *path, *op;  // a call of this operation, for rules of precision.recipes
  const char* ravine;
  std::vector<std::string> mindformers;  // keys of model_config
  const char* mindformers_default;
  const char* megatron;
  const char* trainer;
};

// Returns the type that the last rule of precision.recipes gives to an operation; "" if none matches.
std::string rule_type(const Side& s, const Operation& o) {
  std::string type;
  for (const RecipeOption& rule : s.config.precision.recipes) {
    if (!glob_match(rule.path, o.path) || !glob_match(rule.op, o.op) || (rule.role && *rule.role != Role::forward)) continue;
    if (rule.round || rule.compute) type = std::string(name(rule.round ? *rule.round : *rule.compute));
  }
  return type;
}

Cell ravine_cell(const Side& s, const Operation& o, const std::string& compute) {
  if (const std::string type = rule_type(s, o); !type.empty()) return {type, s.where("precision.recipes", {})};
  const bool own = std::string_view(o.ravine) == "compute";
  return {own || compute == "f64" ? compute : o.ravine, s.where("precision.compute", {}), true};
}

Cell megatron_cell(const Side& s, const Operation& o, const std::string& compute) {
  const std::string_view name = o.name;
  const bool half = compute == "f16";
  if (name == "softmax_compute_type") {
    for (const char* key : {"--attention-softmax-in-fp32", "--use-flash-attn"})
      if (s.is_on(key)) return {"f32", s.where("", {key})};
    return {s.is_on("--no-attention-softmax-in-fp32") ? compute : "f32", s.where("", {"--no-attention-softmax-in-fp32"}), true};
  }
  if (name == "residual_add" && s.is_on("--fp32-residual-connection"))
    return {"f32", s.where("", {"--fp32-residual-connection"})};
  if (name == "loss" && s.is_on("--fp16-lm-cross-entropy")) return {compute, s.where("", {"--fp16-lm-cross-entropy"})};
  if (name == "gradients") {
    const std::string key = "--accumulate-allreduce-grads-in-fp32";
    return {half && !s.is_on(key) ? compute : "f32", s.where("", {key, "--bf16"})};
  }
  const std::string type = o.megatron;
  return {type == "compute" ? compute : type, s.where("precision.compute", {"--bf16", "--fp16"}),
          name == "rotary_dtype" || name == "bias_add"};
}

Cell mindformers_cell(const Side& s, const Operation& o, const std::string& compute) {
  if (const std::string type = mind_type(s, o.mindformers); !type.empty()) {
    std::vector<std::string> keys;
    for (const std::string& key : o.mindformers)
      if (!mind_type(s, {key}).empty()) keys.push_back(of_model(key.c_str()));
    const bool flash = std::string_view(o.name) == "softmax_compute_type" && s.is_on(of_model("use_flash_attention"));
    return {flash ? "f32" : type, s.where("", keys)};
  }
  const std::string type = o.mindformers_default;
  return {
      type == "compute" ? compute : type,
      s.where("precision.compute", o.mindformers.empty() ? std::vector{of_model("compute_dtype")} : std::vector<std::string>{}),
      o.mindformers.empty()};
}

Cell trainer_cell(const Side& s, const Operation& o, const std::string& compute) {
  const bool deepspeed = s.sets("--deepspeed");
  const std::string_view name = o.name;
  // DeepSpeed casts the module, autocast the inputs of products alone.
  if (deepspeed && (name == "embedding" || name == "residual_add"))
    return {compute, s.where("precision.compute", {"bf16.enabled", "fp16.enabled"})};
  if (deepspeed && name == "gradients") return {"", ""};
  const std::string type = o.trainer;
  return {type == "compute" ? compute : type,
          s.where("precision.compute", {"--bf16", "--fp16", "bf16.enabled", "fp16.enabled"}), name == "rotary_dtype"};
}

Cell cell_of(const Side& s, const Operation& o) {
  const std::string compute = compute_type(s);
  if (compute.empty()) return {};
  switch (s.program) {
    case Program::megatron:
      return megatron_cell(s, o, compute);
    case Program::mindformers:
      return mindformers_cell(s, o, compute);
    case Program::trainer:
      return trainer_cell(s, o, compute);
    case Program::ravine:
      break;
  }
  if (std::string_view(o.name) == "gradients")
    return {s.config.precision.gradients == GradientType::compute ? compute : "f32", s.where("precision.gradients", {})};
  return ravine_cell(s, o, compute);
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"embedding",
       "The lookup and its gradient are rounded on one side alone: in the guide's case the local norm of the embedding showed it.",
       "model.embed_tokens",
       "embedding",
       "f32",
       {"embedding_init_type", "param_init_type", "params_dtype"},
       "f16",
       "compute",
       "f32"},
      {"layernorm_compute_type",
       "Statistics of norms are rounded on one side alone.",
       "model.layers.0.input_layernorm",
       "rms_norm",
       "f32",
       {"layernorm_compute_type", "layernorm_compute_dtype"},
       "f32",
       "f32",
       "f32"},
      {"softmax_compute_type",
       "Attention probabilities are rounded on one side alone.",
       "model.layers.0.self_attn",
       "softmax",
       "f32",
       {"softmax_compute_type", "softmax_compute_dtype"},
       "f32",
       "f32",
       "f32"},
      {"rotary_dtype",
       "Queries and keys are rounded behind their rotation on one side alone.",
       "model.layers.0.self_attn",
       "rope",
       "f32",
       {"rotary_dtype"},
       "f32",
       "compute",
       "f32"},
      {"lm_head",
       "Logits are products of rounded numbers on one side alone.",
       "lm_head",
       "loss_head",
       "compute",
       {},
       "compute",
       "compute",
       "compute"},
      {"bias_add",
       "Biases are added before or after a rounding.",
       "model.layers.0.self_attn",
       "matmul",
       "compute",
       {},
       "compute",
       "compute",
       "compute"},
      {"residual_add",
       "Small branches are lost in the residual stream on one side alone; the difference grows with depth.",
       "model.layers.0",
       "add",
       "f32",
       {},
       "compute",
       "compute",
       "f32"},
      {"loss",
       "The softmax of the loss is rounded on one side alone.",
       "lm_head",
       "cross_entropy",
       "f32",
       {},
       "f32",
       "f32",
       "f32"},
      {"gradients",
       "Gradients of micro batches and ranks are added with roundings on one side alone.",
       "",
       "",
       "f32",
       {"param_init_type", "params_dtype"},
       "f16",
       "f32",
       "f32"},
  };
  return all;
}

}  // namespace

std::string compute_type(const Side& side) {
  const auto& type = side.config.precision.compute;
  return type ? std::string(name(*type)) : "";
}

void add_precision_rows(Checklist& rows) {
  rows.begin_group("mixed precision");
  rows.add("compute_dtype", "Products are rounded in another way, from the first loss on.", [](const Side& s) {
    return Cell{compute_type(s),
                s.where("precision.compute", {"--bf16", "--fp16", "bf16.enabled", "fp16.enabled", of_model("compute_dtype")})};
  });
  rows.add(
      "param_init_type",
      "Weights, and in MindFormers their gradients, are kept in fewer bits: small updates are lost. The guide asks for f32.",
      [](const Side& s) -> Cell {
        if (s.program != Program::mindformers) return {"f32", s.where("", {}), false};
        const std::string type = mind_type(s, {"param_init_type", "params_dtype"});
        return {type.empty() ? "f16" : type, s.where("", {of_model("param_init_type"), of_model("params_dtype")})};
      });
  for (const Operation& o : operations()) rows.add(o.name, o.effect, [&](const Side& s) { return cell_of(s, o); });
  rows.add("loss_scale", "Steps are skipped on one side alone, and small gradients are lost.", [](const Side& s) -> Cell {
    const std::string compute = compute_type(s);
    const auto& scale = s.config.precision.loss_scale;
    const std::string where = s.where("precision.loss_scale", {"--loss-scale", "fp16.loss_scale", "runner_wrapper.scale_sense",
                                                               "runner_wrapper.scale_sense.loss_scale_value"});
    if (compute.empty()) return {};
    // A constant power of two changes no bit of f32 and bf16 gradients but by underflow.
    if (compute != "f16") return {scale && *scale == 0 ? "dynamic" : "none", where};
    if (scale && *scale > 0) return {shortest_text(*scale), where};
    return {fmt::format("dynamic from {}", s.config.precision.scale_initial), where};
  });
  rows.add("high_precision_mode", "Operators of the device may compute in fewer bits than their inputs have.",
           [](const Side& s) {
             for (const char* key : {"context.ascend_config.precision_mode", "context.ascend_config.ge_options"})
               if (s.sets(key)) return Cell{s.value(key).is_string() ? s.text(key) : s.value(key).dump(), s.where("", {key})};
             return Cell{"not set", s.where("", {}), s.program != Program::mindformers};
           });
}

}  // namespace ravine
