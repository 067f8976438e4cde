// Translates moe_config: the experts of a model and their training. Source: modules/transformer/moe.py and moev3.py,
// models/llama/llama_layer.py (LlamaFeedForwardWithMoE) and research/deepseek3.
#include <fmt/format.h>

#include <algorithm>

#include "dialects/mindformers_run.h"

namespace ravine {
namespace {

using enum KeyType;

std::string at(const char* key) { return "moe_config." + std::string(key); }

int64_t experts_of(const Translation& t) { return t.whole(at("expert_num")); }
int64_t chosen_of(const Translation& t) { return t.whole(at("num_experts_chosen")); }

// True for a grouped product. Its router has no groups and drops no token, whatever routing_policy is.
bool grouped(const Translation& t) { return t.is_on(at("use_gmm")); }

void check_router(Translation& t) {
  const std::string policy = at("routing_policy"), chosen = at("num_experts_chosen");
  if (!grouped(t) && gives(t, policy) && t.text(policy) != "TopkRouterV2")
    t.refuse(policy, fmt::format("routing_policy is {}", t.text(policy)),
             "layers choose and weigh experts as TopkRouterV2 does it; MindFormers' layers (MoEV2) take no other, too",
             "write routing_policy: TopkRouterV2, or use_gmm: True, which has a router of its own");
  else if (!grouped(t) && !gives(t, policy))
    t.notice("moe_config has no routing_policy: it is TopkRouterV2 here, which MindFormers' layers ask for by name");
  if (chosen_of(t) < 1 || chosen_of(t) > experts_of(t))
    t.refuse(chosen, fmt::format("num_experts_chosen is {}, and expert_num {}", chosen_of(t), experts_of(t)),
             "a token goes to some of the experts", "correct one of them");
}

// Refuses a setting that this family does not have, if it is turned on.
void refuse_if(Translation& t, bool asks, const char* key, const char* rule, const char* fix = "leave it out") {
  if (asks) t.refuse(at(key), fmt::format("{} is {}", key, t.value(at(key)).dump()), rule, fix);
}

// Sets the experts of Llama's layers. The family is Qwen2-MoE with shared experts or unnormalised weights, else
// Mixtral.
void choose_llama_experts(Translation& t, Json& config, bool qkv_bias) {
  const int64_t experts = experts_of(t), chosen = chosen_of(t), shared = t.whole(at("shared_expert_num"));
  if (gives(t, at("moe_intermediate_size"))) config["intermediate_size"] = t.whole(at("moe_intermediate_size"));
  config.erase("attention_bias");
  config["output_router_logits"] = false;
  config["num_experts_per_tok"] = chosen;
  // a single weight is not normalised, as in MindFormers
  const bool normalised = chosen > 1 && t.is_on(at("norm_topk_prob"));
  if (shared > 0 || !normalised || qkv_bias) {
    const int64_t width = config.value("intermediate_size", int64_t{0});
    config["model_type"] = "qwen2_moe";
    config["qkv_bias"] = qkv_bias;
    config["num_experts"] = experts;
    config["moe_intermediate_size"] = width;
    config["shared_expert_intermediate_size"] = width * shared;
    config["norm_topk_prob"] = normalised;
    if (shared > 0) config["shared_expert_gate"] = t.is_on(at("use_shared_expert_gating"));
    if (shared > 0 && !t.is_on(at("use_shared_expert_gating")))
      t.notice("shared experts without a gate: MindFormers reads this run's checkpoints, Transformers has no class for them");
  } else {
    config["model_type"] = "mixtral";
    config["num_local_experts"] = experts;
  }
  refuse_if(t, shared < 1 && t.is_on(at("use_shared_expert_gating")), "use_shared_expert_gating",
            "a gate is that of shared experts", "set shared_expert_num");
  refuse_if(t, t.number(at("routed_scaling_factor")) != 1, "routed_scaling_factor",
            "weights of the chosen experts are not scaled in layers of Llama");
  for (const char* key : {"n_group", "topk_group"})
    refuse_if(t, !grouped(t) && t.whole(at(key)) > 1, key, "experts of Llama's layers have no groups");
  refuse_if(t, t.is_on(at("use_gating_sigmoid")), "use_gating_sigmoid", "experts of Llama's layers are chosen by softmax");
  refuse_if(t, t.text(at("topk_method")) != "greedy", "topk_method", "experts of Llama's layers are chosen one by one");
  const std::string dense = at("first_k_dense_replace");
  refuse_if(t, gives(t, dense) && t.value(dense) != false && t.value(dense) != 0, "first_k_dense_replace",
            "all layers of Llama have experts, and in MindFormers' class too, which does not read the key (True stands for 1)",
            "write False");
}

// Sets a field of config.json from moe_config, unless model_config has it. Different values are refused.
void take(Translation& t, Json& config, const char* field, const char* key, const Json& value) {
  const std::string own = mindformers_model_key(t, field == std::string("num_experts") ? "n_routed_experts" : field);
  if (!own.empty() && t.has(at(key)) && gives(t, at(key)) && t.value(own) != value)
    t.refuse(at(key), fmt::format("{} is {}, and {} {}", at(key), value.dump(), own, t.value(own).dump()),
             "both say the same of the model", "leave one of them out");
  if (own.empty()) config[field] = value;
}

// Sets the experts of the classes that have experts. A missing key has MoEConfig's default (`defaults`: the old
// classes), or the default of the class.
void choose_core_experts(Translation& t, Json& config, bool defaults) {
  const bool deep = config["model_type"] == "deepseek_v3";
  const auto counts = [&](const char* key) { return gives(t, at(key)) || defaults; };
  if (counts("expert_num")) take(t, config, deep ? "n_routed_experts" : "num_experts", "expert_num", experts_of(t));
  if (counts("num_experts_chosen")) take(t, config, "num_experts_per_tok", "num_experts_chosen", chosen_of(t));
  if (counts("moe_intermediate_size"))
    take(t, config, "moe_intermediate_size", "moe_intermediate_size",
         gives(t, at("moe_intermediate_size")) ? t.whole(at("moe_intermediate_size")) : 1407);
  if (counts("norm_topk_prob"))
    take(t, config, "norm_topk_prob", "norm_topk_prob", t.is_on(at("norm_topk_prob")) && chosen_of(t) != 1);
  const Json& given = t.value(at("first_k_dense_replace"));
  const int64_t dense = given.is_number_integer() ? given.get<int64_t>() : given == true ? 1 : 0;
  const int64_t shared = t.whole(at("shared_expert_num"));
  if (!deep) {
    if (counts("first_k_dense_replace")) {
      config["mlp_only_layers"] = Json::array();
      for (int64_t i = 0; i < dense; ++i) config["mlp_only_layers"].push_back(i);
    }
    refuse_if(t, shared > 0, "shared_expert_num", "layers of Qwen3-MoE have no shared experts");
    refuse_if(t, t.is_on(at("use_gating_sigmoid")), "use_gating_sigmoid", "experts of Qwen3-MoE are chosen by softmax");
    refuse_if(t, t.number(at("routed_scaling_factor")) != 1, "routed_scaling_factor", "weights of Qwen3-MoE are not scaled");
    refuse_if(t, t.text(at("topk_method")) != "greedy", "topk_method", "experts of Qwen3-MoE are chosen one by one");
  } else {
    if (counts("first_k_dense_replace")) take(t, config, "first_k_dense_replace", "first_k_dense_replace", dense);
    if (counts("shared_expert_num")) take(t, config, "n_shared_experts", "shared_expert_num", shared);
    if (counts("routed_scaling_factor"))
      take(t, config, "routed_scaling_factor", "routed_scaling_factor", t.number(at("routed_scaling_factor")));
    if (counts("use_gating_sigmoid")) config["scoring_func"] = t.is_on(at("use_gating_sigmoid")) ? "sigmoid" : "softmax";
    if (config.value("scoring_func", "sigmoid") == "softmax")
      t.notice(
          "experts are scored by softmax (moe_config.use_gating_sigmoid): Transformers' DeepSeek-V3 has the sigmoid alone");
    if (counts("topk_method")) config["topk_method"] = t.text(at("topk_method"));
    const bool groups = !grouped(t) && config.value("topk_method", "noaux_tc") != "greedy";
    if (counts("n_group") || grouped(t))
      take(t, config, "n_group", "n_group", groups ? std::max<int64_t>(1, t.whole(at("n_group"))) : 1);
    if (counts("topk_group") || grouped(t))
      take(t, config, "topk_group", "topk_group", groups ? std::max<int64_t>(1, t.whole(at("topk_group"))) : 1);
  }
  refuse_if(t, t.is_on(at("use_shared_expert_gating")), "use_shared_expert_gating", "shared experts of this class have no gate",
            "leave it out, or take LlamaConfig");
}

// Refuses numbers of MoEDropRateCallback that differ from moe_config: Ravine logs the measured rate of dropped tokens.
void hold_drop_rates(Translation& t, double capacity) {
  const std::string callback = callback_of(t, "MoEDropRateCallback");
  if (callback.empty()) return;
  const std::string experts = callback + ".expert_num", factor = callback + ".capacity_factor";
  const char* rule = "the rate shown is that of the tokens that experts leave out";
  if (t.has(experts) && t.whole(experts) != experts_of(t))
    t.refuse(experts, fmt::format("expert_num is {}, and moe_config.expert_num {}", t.whole(experts), experts_of(t)), rule,
             fmt::format("write {}", experts_of(t)));
  if (t.has(factor) && t.number(factor) != capacity)
    t.refuse(factor, fmt::format("capacity_factor is {}, and moe_config.capacity_factor {}", t.number(factor), capacity), rule,
             fmt::format("write {}", capacity));
}

// Translates the keys of moe_config on training, for all families.
void choose_expert_training(Translation& t) {
  const auto set = [&](const char* option, const Json& value, const char* key) {
    t.set(option, value, std::string("moe_config.") + key);
  };
  const bool grouped = t.is_on("moe_config.use_gmm");
  const double capacity = t.number("moe_config.capacity_factor");
  hold_drop_rates(t, capacity);
  if (!grouped && capacity > 0) {
    set("moe.capacity_factor", capacity, "capacity_factor");
    set("moe.drop", t.is_on("moe_config.enable_sdrop") ? "position" : "rank", "enable_sdrop");
    if (const std::string overlap = "moe_config.comp_comm_parallel"; t.value(overlap) == true)
      t.refuse(overlap, "comp_comm_parallel is True",
               "MindFormers then rounds the capacity of an expert up to a multiple of its degree; here capacity is not rounded",
               "set it to False");
  }
  if (t.is_on("moe_config.balance_via_topk_bias")) {
    set("moe.load_balance", "bias", "balance_via_topk_bias");
    set("moe.bias_update_rate", t.number("moe_config.topk_bias_update_rate"), "topk_bias_update_rate");
  } else if (const Json& factors = t.value("moe_config.aux_loss_factors"); factors.is_array() && !factors.empty()) {
    const Json& types = t.value("moe_config.aux_loss_types");
    if (factors.size() != 1 || !types.is_array() || types.size() != 1 || types[0] != "expert")
      t.refuse("moe_config.aux_loss_types", fmt::format("aux_loss_types is {}", types.dump()),
               "a loss of the load is that of experts", "keep `expert` and its factor");
    else
      set("moe.load_balance", "aux", "aux_loss_types"), set("moe.aux_loss", factors[0], "aux_loss_factors");
  } else {
    set("moe.load_balance", "none", "aux_loss_factors");
  }
  if (const double z = t.number("moe_config.z_loss_factor"); z > 0 && !grouped) set("moe.z_loss", z, "z_loss_factor");
}

}  // namespace

void add_mindformers_expert_rows(MindFormersTable& table) {
  const auto at = [](const char* key) { return "moe_config." + std::string(key); };
  table.add({
      used(at("expert_num"), whole, "model.config", 1),
      used(at("num_experts_chosen"), whole, "model.config", 1),
      used(at("capacity_factor"), number, "moe.capacity_factor", 1.1),
      inert(at("aux_loss_factor"), number,
            "aux_loss_factors count; routers of version 2 and 3 have no use for it, in MindFormers too"),
      used(at("aux_loss_types"), any, "moe.load_balance"),
      used(at("aux_loss_factors"), any, "moe.aux_loss"),
      used(at("z_loss_factor"), number, "moe.z_loss", 0.0),
      used(at("use_gating_sigmoid"), boolean, "model.config", false),
      used(at("topk_method"), text, "model.config", "greedy"),
      used(at("n_group"), whole, "model.config"),
      used(at("topk_group"), whole, "model.config"),
      used(at("norm_topk_prob"), boolean, "model.config", true),
      used(at("routed_scaling_factor"), number, "model.config", 1.0),
      used(at("balance_via_topk_bias"), boolean, "moe.load_balance", false),
      used(at("topk_bias_update_rate"), number, "moe.bias_update_rate", 0.0),
      used(at("enable_sdrop"), boolean, "moe.drop", false),
      used(at("first_k_dense_replace"), any, "model.config", true),
      used(at("moe_intermediate_size"), whole, "model.config"),
      used(at("shared_expert_num"), whole, "model.config", 0),
      used(at("use_shared_expert_gating"), boolean, "model.config", false),
      used(at("use_gmm"), boolean, "moe.capacity_factor", false),
      used(at("routing_policy"), text, "model.config", "TopkRouterV1", {"TopkRouterV1", "TopkRouterV2"}),
      inert(at("callback_moe_droprate"), boolean,
            "shares of what is left out are always counted; MoEDropRateCallback shows them", false),
  });
  const char* exchange = "how tokens travel to their experts decides no number";
  for (const char* key :
       {"expert_group_size", "group_wise_a2a", "comp_comm_parallel", "comp_comm_parallel_degree", "use_allgather_dispatcher",
        "moe_shared_expert_overlap", "expert_model_parallel", "ep_extend_tp", "enable_deredundency", "npu_nums_per_device",
        "max_router_load", "use_fused_ops_topkrouter", "use_fused_ops_permute", "enable_gmm_safe_tokens"})
    table.add({inert(at(key), any, exchange)});
  table.add({inert(at("dispatch_global_max_bs"), any, "it counts while a text is made")});
  for (const char* key : {"update_step", "hot_expert_num", "cold_token_percent", "moe_module_name"})
    table.add({inert(at(key), any, "it counts with enable_cold_hot_expert alone")});
  table.add({inert(at("cur_layer"), any, "it counts with save_token_distribution or enable_cold_hot_expert alone")});
  const char* load = "metrics.jsonl has the load of the fullest expert of each layer (expert_load)";
  table.add_only(at("save_token_distribution"), boolean, {false}, load, load);
  table.add_only(at("enable_cold_hot_expert"), boolean, {false}, "each expert is on one group of ranks",
                 "experts are not copied to other ranks");
}

bool set_mindformers_experts(Translation& t, Json& config, bool from_folder) {
  const std::string family = config.value("model_type", "");
  const bool core = family == "deepseek_v3" || family == "qwen3_moe", llama = family == "llama" || family == "qwen2";
  const bool several = experts_of(t) > 1;
  if (llama && several) {
    check_router(t);
    choose_llama_experts(t, config, family == "qwen2");
  } else if (core) {
    if (several) check_router(t);
    choose_core_experts(t, config, several && !from_folder && t.is_on("use_legacy"));
  } else if (several) {
    t.refuse(at("expert_num"), fmt::format("expert_num is {}", experts_of(t)), "layers of this class have no experts",
             "take LlamaConfig, Qwen3MoeConfig or DeepseekV3Config");
  }
  if (several || config.contains("n_routed_experts") || config.contains("num_experts") || family == "qwen3_moe") {
    choose_expert_training(t);
    return true;
  }
  for (const std::string& key : t.given())
    if (key.starts_with(at("")) && t.has(key) && key != at("expert_num"))
      t.becomes(key, KeyStatus::inert, "the model has no experts (moe_config.expert_num)");
  return false;
}

}  // namespace ravine
