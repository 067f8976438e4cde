// Translates model.model_config into the config.json of a family. The keys may have MindFormers' names or Hugging
// Face's. Source: models/llama/llama_config.py and the converters of parallel_core/transformer_config_utils.py.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "dialects/mindformers_run.h"

namespace ravine {
namespace {

using enum KeyType;

constexpr const char* kModelKeys = "model.model_config.";

// A field of config.json and its names in MindFormers; the first name is Hugging Face's.
struct ModelField {
  const char* field;
  KeyType type;
  std::vector<const char*> names;
};
const std::vector<ModelField>& model_fields() {
  static const std::vector<ModelField> all = {
      {"hidden_size", whole, {"hidden_size"}},
      {"num_hidden_layers", whole, {"num_layers", "num_hidden_layers"}},
      {"num_attention_heads", whole, {"num_heads", "num_attention_heads"}},
      {"num_key_value_heads", whole, {"n_kv_heads", "num_query_groups", "num_key_value_heads"}},
      {"intermediate_size", whole, {"intermediate_size", "ffn_hidden_size"}},
      {"vocab_size", whole, {"vocab_size", "padded_vocab_size"}},
      {"rms_norm_eps", number, {"rms_norm_eps", "layernorm_epsilon"}},
      {"rope_theta", number, {"theta", "rotary_base", "rope_theta"}},
      {"head_dim", whole, {"head_dim", "kv_channels"}},
      {"tie_word_embeddings", boolean, {"tie_word_embeddings"}},
      {"initializer_range", number, {"init_method_std", "initializer_range"}},
      {"bos_token_id", any, {"bos_token_id"}},
      {"eos_token_id", any, {"eos_token_id"}},
      // experts, in mcore's classes
      {"n_routed_experts", whole, {"n_routed_experts", "num_moe_experts", "num_experts"}},
      {"num_experts_per_tok", whole, {"num_experts_per_tok", "moe_router_topk"}},
      {"moe_intermediate_size", whole, {"moe_intermediate_size", "moe_ffn_hidden_size"}},
      {"n_shared_experts", whole, {"n_shared_experts"}},
      {"n_group", whole, {"n_group", "moe_router_num_groups"}},
      {"topk_group", whole, {"topk_group", "moe_router_group_topk"}},
      {"routed_scaling_factor", number, {"routed_scaling_factor", "moe_router_topk_scaling_factor"}},
      {"norm_topk_prob", boolean, {"norm_topk_prob"}},
      {"first_k_dense_replace", whole, {"first_k_dense_replace"}},
      {"router_aux_loss_coef", number, {"router_aux_loss_coef", "moe_aux_loss_coeff"}},
      {"decoder_sparse_step", whole, {"decoder_sparse_step"}},
      // latent attention
      {"kv_lora_rank", whole, {"kv_lora_rank"}},
      {"q_lora_rank", whole, {"q_lora_rank"}},
      {"qk_rope_head_dim", whole, {"qk_rope_head_dim"}},
      {"qk_nope_head_dim", whole, {"qk_nope_head_dim"}},
      {"v_head_dim", whole, {"v_head_dim"}},
  };
  return all;
}

std::string key_of(const Translation& t, const char* field) { return mindformers_model_key(t, field); }

// Refuses a field that is given by two names with different values.
void refuse_second_value(Translation& t, const ModelField& f, const std::string& first) {
  for (const char* name : f.names) {
    const std::string key = kModelKeys + std::string(name);
    if (key == first || !gives(t, key) || !t.has(key) || t.value(key) == t.value(first)) continue;
    t.refuse(key,
             fmt::format("{} is {}, and {} {}", name, t.value(key).dump(), first.substr(first.rfind('.') + 1),
                         t.value(first).dump()),
             "they are two names of one value", "leave one of them out");
  }
}

std::string key_or(const Translation& t, const char* field, const char* otherwise) {
  const std::string key = key_of(t, field);
  return key.empty() ? kModelKeys + std::string(otherwise) : key;
}

int64_t whole_of(const Translation& t, const char* field, int64_t otherwise) {
  const std::string key = key_of(t, field);
  return key.empty() ? otherwise : t.whole(key);
}

// Returns LlamaConfig's intermediate size if none is given.
int64_t llama_width(const Translation& t, int64_t hidden) {
  int64_t h = 4 * hidden;
  const std::string multiplier = kModelKeys + std::string("ffn_dim_multiplier"),
                    multiple = kModelKeys + std::string("multiple_of");
  if (t.has(multiplier)) h = static_cast<int64_t>((t.number(multiplier) + 0.01) * static_cast<double>(h));
  h = 2 * h / 3;
  const int64_t of = std::max<int64_t>(1, t.whole(multiple));
  return of * ((h + of - 1) / of);
}

Json llama3_scaling(const Json& s) {
  Json out = {{"rope_type", "llama3"}};
  for (const auto& [key, value] : s.items()) out[key] = value;
  return out;
}

// Returns rope_scaling for extend_method and scaling_factor; null if positions are not scaled.
Json rope_scaling(Translation& t, Json& config) {
  const std::string key = kModelKeys + std::string("extend_method"), factor_key = kModelKeys + std::string("scaling_factor");
  const std::string method = t.text(key);
  Json factor = t.value(factor_key);
  if (!gives(t, factor_key) || factor.is_null()) {  // the keys of a map are flat
    Json parts = Json::object();
    for (const char* part : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_slow",
                             "beta_fast", "mscale", "mscale_all_dim"})
      if (t.has(factor_key + "." + part)) parts[part] = t.value(factor_key + "." + part);
    if (!parts.empty()) factor = parts;
  }
  const auto wrong = [&] {
    t.refuse(factor_key, fmt::format("scaling_factor is {}", factor.dump()),
             fmt::format("extend_method {} needs another", method), "give the numbers of the method");
    return Json();
  };
  const bool is_map = factor.is_object();
  const double number = factor.is_number()                    ? factor.get<double>()
                        : is_map && factor.contains("factor") ? factor["factor"].get<double>()
                                                              : 1;
  if (method.empty() || method == "None") return Json();
  if (method == "PI" || method == "linear") return Json{{"rope_type", "linear"}, {"factor", number}};
  if (method == "NTK") {
    config["rope_theta"] = config.value("rope_theta", 10000.0) * number;
    return Json();
  }
  if (method == "LLAMA3") return is_map ? llama3_scaling(factor) : wrong();
  if (method == "YARN") {
    if (!is_map) return wrong();
    Json out = factor;
    out["rope_type"] = "yarn";
    return out;
  }
  t.refuse(key, fmt::format("extend_method is {}", method), "known are None, PI, NTK, YARN, LLAMA3 and linear",
           "use one of them");
  return Json();
}

const char* family_of_class(const std::string& type) {
  if (type == "LlamaConfig") return "llama";
  if (type == "Qwen2Config" || type == "qwen2" || type == "Qwen2ForCausalLM") return "qwen2";
  if (type == "Qwen3Config" || type == "qwen3" || type == "Qwen3ForCausalLM") return "qwen3";
  if (type == "Qwen3MoeConfig" || type == "qwen3_moe" || type == "Qwen3MoeForCausalLM") return "qwen3_moe";
  if (type == "DeepseekV3Config" || type == "deepseek_v3" || type == "DeepseekV3ForCausalLM") return "deepseek_v3";
  if (type == "llama" || type == "LlamaForCausalLM") return "llama";
  return "";
}

// Returns the name of the model's kind, and the key that has it.
std::pair<std::string, std::string> kind_of(const Translation& t) {
  for (const char* key : {"type", "model_type"})
    if (t.has(kModelKeys + std::string(key))) return {t.text(kModelKeys + std::string(key)), kModelKeys + std::string(key)};
  const std::string architectures = kModelKeys + std::string("architectures");
  if (t.has(architectures)) {
    const Json& value = t.value(architectures);
    const Json& one = value.is_array() && !value.empty() ? value[0] : value;
    if (one.is_string()) return {one.get<std::string>(), architectures};
  }
  return {"", ""};
}

// Returns config.json of the Hugging Face folder in pretrained_model_dir; null if there is none.
Json config_of_folder(Translation& t) {
  const std::string folder = t.text("pretrained_model_dir");
  std::error_code error;
  if (folder.empty()) return Json();
  const std::string file = folder + "/config.json";
  if (!std::filesystem::is_regular_file(file, error)) {
    t.refuse("pretrained_model_dir", fmt::format("no {}", file), "it is a folder of Hugging Face, with its config.json",
             "name the folder where the model is");
    return Json();
  }
  return read_json(file);
}

}  // namespace

std::string mindformers_model_key(const Translation& t, const char* field) {
  for (const ModelField& f : model_fields())
    if (std::string_view(f.field) == field)
      for (const char* name : f.names)
        if (gives(t, kModelKeys + std::string(name)) && t.has(kModelKeys + std::string(name)))
          return kModelKeys + std::string(name);
  return "";
}

void add_mindformers_model_rows(MindFormersTable& table, const std::vector<GivenKey>& given) {
  const auto at = [](const char* key) { return kModelKeys + std::string(key); };
  table.add({
      inert("model.arch.type", text, "model_config.type says which model it is"),
      inert("model.arch", any, "model_config.type says which model it is"),
      used("model.model_config", any, "model.config"),
      used(at("type"), text, "model.config"),
      used(at("model_type"), text, "model.config"),
      used(at("architectures"), any, "model.config"),
      used(at("seq_length"), whole, "data.sequence_length", 2048),
      used(at("max_position_embedding"), whole, "model.config"),
      used(at("max_position_embeddings"), whole, "model.config"),
      used(at("multiple_of"), whole, "model.config", 256),
      used(at("ffn_dim_multiplier"), number, "model.config"),
      used(at("qkv_has_bias"), boolean, "model.config", false),
      used(at("add_qkv_bias"), boolean, "model.config", false),
      used(at("attention_bias"), boolean, "model.config", false),
      used(at("attn_proj_has_bias"), boolean, "model.config", false),
      used(at("ignore_token_id"), whole, "data", -100),
      used(at("pad_token_id"), whole, "data.pad"),
      used(at("compute_dtype"), text, "precision.compute", "float16", {"float32", "float16", "bfloat16"}),
      used(at("extend_method"), text, "model.config", "None"),
      used(at("position_embedding_type"), text, "model.config", "rope", {"rope"}),
      used(at("scaling_factor"), number, "model.config", 1.0),
      used(at("attention_dropout"), number, "train.attention_dropout", 0.0),
      used(at("hidden_dropout"), number, "train.dropout", 0.0),
      used(at("pp_interleave_num"), whole, "parallel.virtual", 1),
      used(at("offset"), any, "parallel.stage_layers", 0),
      used(at("input_sliced_sig"), boolean, "data.train", false),
      used(at("calculate_per_token_loss"), boolean, "train.loss_average", false),
      used(at("checkpoint_name_or_path"), text, "model.weights", ""),
  });
  for (const char* part : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_slow",
                           "beta_fast", "mscale", "mscale_all_dim"})
    table.add({used(at("scaling_factor.") + part, number, "model.config")});
  for (const ModelField& f : model_fields())
    for (const char* name : f.names) table.add({used(at(name), f.type, "model.config")});
  table.add_only(at("use_past"), boolean, {false, true}, "keys and values are kept while a text is made, and only then", "");
  add_mindformers_precision_rows(table);
  const char* speaking = "it counts while a text is made; `ravine generate` has flags for it";
  for (const char* key : {"max_decode_length", "max_length", "top_k", "top_p", "repetition_penalty", "do_sample", "block_size",
                          "num_blocks", "temperature", "max_new_tokens", "chunk_prefill", "llm_backend"})
    table.add({inert(at(key), any, speaking)});
  table.add_only(at("return_hidden_states"), boolean, {false}, "a model gives logits",
                 "a model gives tokens, not what its last layer hands on",
                 "leave it out; `ravine dump` writes that of any layer");
  const char* layout = "how ranks share a layer decides no number";
  for (const char* key : {"parallel_optimizer", "fine_grain_interleave", "context_parallel_algo", "cp_comm_type"})
    table.add({inert(at(key), any, layout)});
  table.add({inert(at("batch_size"), any, "runner_config.batch_size counts, in MindFormers too")});
  for (const char* key :
       {"model.arch.auto_register", "model.model_config.auto_register", "model.model_config.auto_map.AutoModel",
        "model.model_config.auto_map.AutoConfig", "model.model_config.auto_map.AutoTokenizer"})
    table.add({inert(key, any, "no code that lies beside a model is run")});
  for (const char* key : {"emb_dropout_prob", "use_past_shard", "rotary_pct", "rotary_emb_base", "compute_in_2d", "rl_config"})
    table.add({inert(at(key), any, "MindFormers itself passes it over")});
  table.add(
      {used(at("untie_embeddings_and_output_weights"), boolean, "model.config"),
       used(at("qk_layernorm"), boolean, "model.config"),
       inert(
           at("use_contiguous_weight_layout"), boolean,
           "it orders the rows of linear_qkv in MindFormers' own files; separate q, k and v are read alike, and linear_qkv as under False"),
       inert(at("parallel_config"), any, "the section of that name counts"),
       inert(at("moe_config"), any, "the section of that name counts")});
  const auto only = [&](const char* key, std::vector<Json> values, const char* rule, const char* fix = "leave it out") {
    table.add_only(at(key), any, std::move(values), "it is as models here are", rule, fix);
  };
  only("freeze_include", {nullptr}, "parameters are chosen by train.freeze, under the names of Hugging Face");
  only("normalization", {"RMSNorm"}, "layers have RMSNorm");
  only("gated_linear_unit", {true}, "feed-forward layers are gated by silu");
  only("add_bias_linear", {false}, "linear layers have no bias beside that of add_qkv_bias");
  only("quantization_config", {nullptr}, "weights are trained, not quantised");
  only("hidden_act", {"silu", "swiglu", nullptr}, "feed-forward layers are gated by silu");
  only("use_sliding_window", {false}, "attention of these models sees all that comes before");
  only("scoring_func", {"sigmoid", nullptr}, "experts of this model are scored by the sigmoid");
  only("topk_method", {"noaux_tc", nullptr}, "experts of this model are chosen in groups, with a bias");
  only("moe_layer_freq", {1, nullptr}, "all layers behind the first dense ones have experts");
  only("output_router_logits", {false}, "the loss of the load is that of moe_config",
       "leave it out; router_aux_loss_coef says it");
  only("quant_config", {nullptr}, "weights are trained, not quantised");
  only("use_eod_attn_mask_compression", {false}, "the keys of the data say which documents a token sees",
       "set create_compressed_eod_mask: True in train_dataset.data_loader.config");
  only("post_layer_norm", {false}, "this model has no such layer");
  only("use_3d_tensor_parallel", {false}, "tensor ranks lie in one line");
  only("mtp_depth", {0}, "heads for further tokens are not trained");
  only("mtp_num_layers", {0, nullptr}, "heads for further tokens are not trained");
  only("num_nextn_predict_layers", {0}, "heads for further tokens are not trained");
  const char* window = "it counts with use_sliding_window alone";
  table.add({inert(at("sliding_window"), whole, window), inert(at("max_window_layers"), whole, window),
             inert(at("use_cache"), boolean, "keys and values are kept while a text is made, and only then"),
             inert(at("ep_size"), whole, "how ranks share experts decides no number")});
  for (const GivenKey& g : given) {
    if (g.key.starts_with(at("pet_config.")))
      table.add({refused(g.key, any, "adapters have options of their own here",
                         "train them by `ravine train` with lora.rank and lora.targets")});
    if (g.key.starts_with(at("rl_config."))) table.add({inert(g.key, any, "MindFormers itself passes it over")});
    if (g.key.starts_with(at("quantization_config.")))
      table.add({refused(g.key, any, "weights are trained, not quantised", "name weights of 16 or 32 bits")});
  }
  table.add({inert(at("mtp_loss_factor"), number, "it counts with mtp_depth alone"),
             inert(at("mtp_loss_scaling_factor"), number, "it counts with mtp_depth alone")});
  for (const char* key : {"tp_x", "tp_y", "tp_z"})
    table.add({inert(at(key), whole, "it counts with use_3d_tensor_parallel alone")});
  // for an unknown model only its name is refused, and its keys are ignored
  for (const GivenKey& g : given) {
    if (g.key != at("type") || !g.value.is_string() || *family_of_class(g.value.get<std::string>()) != 0) continue;
    const std::string type = g.value.get<std::string>();
    for (DialectKey& row : table.rows)
      if (row.key == at("type"))
        row.choices = {"LlamaConfig", "Qwen2Config", "Qwen3Config", "Qwen3MoeConfig", "DeepseekV3Config"};
    for (const GivenKey& k : given)
      if (k.key.starts_with(kModelKeys) &&
          std::none_of(table.rows.begin(), table.rows.end(), [&](const DialectKey& r) { return r.key == k.key; }))
        table.add({inert(k.key, any, "its model is not known")});
  }
}

void set_mindformers_model(Translation& t) {
  const auto [kind, kind_key] = kind_of(t);
  Json config = config_of_folder(t);
  if (!t.refusals().empty() && std::any_of(t.refusals().begin(), t.refusals().end(), [&](const KeyRefusal& r) {
        return r.key == kind_key || r.key == "pretrained_model_dir";
      }))
    return;
  const bool from_folder = config.is_object();
  std::string family = from_folder ? config.value("model_type", "") : family_of_class(kind);
  if (family.empty()) {
    const std::string key = kind_key.empty() ? "model.model_config" : kind_key;
    KeyRefusal no{
        .key = key,
        .what = kind.empty() ? std::string("the config 'model' lacks model_config.type") : fmt::format("model {}", kind),
        .where = kind_key.empty() ? "model" : t.source(kind_key),
        .rule = "families are those of LlamaConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig and DeepseekV3Config",
        .fix = "name one of them"};
    if (kind.empty()) no.rule = "a model needs its model_config, with the type of its class", no.fix = "write the section";
    t.refuse(std::move(no));
    return;
  }
  if (const std::string class_family = family_of_class(kind); from_folder && !class_family.empty() && class_family != family) {
    t.refuse(kind_key,
             fmt::format("{} is {}, and {}/config.json of {}", kind_key, kind, t.text("pretrained_model_dir"), family),
             "class and folder are of one family", "correct one of them");
    return;
  }
  if (!from_folder) config = {{"model_type", family}};
  config["pad_token_id"] = nullptr;  // the embedding of this id is trained; data.pad masks it
  for (const ModelField& f : model_fields())
    if (const std::string key = key_of(t, f.field); !key.empty()) {
      config[f.field] = t.value(key);
      refuse_second_value(t, f, key);
    }
  if (const std::string untie = kModelKeys + std::string("untie_embeddings_and_output_weights");
      t.has(untie) && key_of(t, "tie_word_embeddings").empty())
    config["tie_word_embeddings"] = !t.is_on(untie);
  const bool norms_heads = family.starts_with("qwen3"), latent = family.starts_with("deepseek");
  if (const std::string key = kModelKeys + std::string("qk_layernorm"); t.has(key) && !latent && t.is_on(key) != norms_heads)
    t.refuse(key, fmt::format("qk_layernorm is {}, and the model of family {}", t.is_on(key), family),
             "queries and keys of a head are normalised in Qwen3, and in no other family", "name that class, or leave it out");
  const std::string seq = kModelKeys + std::string("seq_length");
  int64_t positions = t.whole(seq);
  for (const char* name : {"max_position_embedding", "max_position_embeddings"})
    if (t.has(kModelKeys + std::string(name))) positions = std::max(positions, t.whole(kModelKeys + std::string(name)));
  if (family == "qwen3_moe" && config.contains("n_routed_experts")) {
    config["num_experts"] = config["n_routed_experts"];
    config.erase("n_routed_experts");
  }
  if (!from_folder || t.has(seq))
    config["max_position_embeddings"] =
        std::max(positions, from_folder ? config.value("max_position_embeddings", int64_t{0}) : 0);
  if (!from_folder) {
    // the defaults of the class
    const int64_t hidden = whole_of(t, "hidden_size", 4096), heads = whole_of(t, "num_attention_heads", 32);
    config["hidden_size"] = hidden;
    config["num_hidden_layers"] = whole_of(t, "num_hidden_layers", 32);
    config["num_attention_heads"] = heads;
    if (!config.contains("num_key_value_heads")) config["num_key_value_heads"] = heads;
    if (!config.contains("vocab_size")) config["vocab_size"] = 32000;
    if (!config.contains("rms_norm_eps")) config["rms_norm_eps"] = 1e-5;
    if (!config.contains("rope_theta")) config["rope_theta"] = 10000.0;
    if (!config.contains("initializer_range")) config["initializer_range"] = family == "llama" ? 0.01 : 0.02;
    if (!config.contains("tie_word_embeddings")) config["tie_word_embeddings"] = false;
    if (!config.contains("intermediate_size") && family == "llama") config["intermediate_size"] = llama_width(t, hidden);
    const int64_t kv = config["num_key_value_heads"].get<int64_t>();
    if (heads <= 0 || (!config.contains("head_dim") && hidden % heads != 0)) {
      const std::string key = key_or(t, "num_attention_heads", "num_heads");
      t.refuse(key, fmt::format("hidden_size {} and {} {}", hidden, key.substr(std::string(kModelKeys).size()), heads),
               "heads share the hidden size evenly", "choose a number of heads that divides it");
    }
    if (heads > 0 && (kv <= 0 || heads % kv != 0)) {
      const std::string key = key_or(t, "num_key_value_heads", "n_kv_heads");
      t.refuse(key, fmt::format("{} heads and {} {}", heads, key.substr(std::string(kModelKeys).size()), kv),
               "heads share those of keys and values evenly", "choose a number that divides num_heads");
    }
  }
  if (family == "llama") {
    const bool qkv = t.is_on(kModelKeys + std::string("qkv_has_bias")) || t.is_on(kModelKeys + std::string("add_qkv_bias")) ||
                     t.is_on(kModelKeys + std::string("attention_bias"));
    const bool out = t.is_on(kModelKeys + std::string("attn_proj_has_bias"));
    if (qkv && !out)
      config["model_type"] = "qwen2";
    else if (qkv || out)
      config["attention_bias"] = true;
    if (out && !qkv)
      t.refuse(kModelKeys + std::string("attn_proj_has_bias"), "attn_proj_has_bias", "no family has it without qkv_has_bias",
               "set both or none");
  }
  const bool experts = set_mindformers_experts(t, config, from_folder);
  if (const Json scaling = rope_scaling(t, config); !scaling.is_null()) config["rope_scaling"] = scaling;
  t.set("model.config", config, kind_key.empty() ? "pretrained_model_dir" : kind_key);
  static const std::map<std::string, std::string> kTypes = {{"float32", "f32"}, {"float16", "f16"}, {"bfloat16", "bf16"}};
  const std::string compute = kModelKeys + std::string("compute_dtype");
  if (const auto type = kTypes.find(t.text(compute)); type != kTypes.end()) t.set("precision.compute", type->second, compute);
  set_mindformers_precision(t, experts);
  for (const auto& [key, option] :
       {std::pair{"attention_dropout", "train.attention_dropout"}, {"hidden_dropout", "train.dropout"}})
    if (t.number(kModelKeys + std::string(key)) > 0)
      t.set(option, t.number(kModelKeys + std::string(key)), kModelKeys + std::string(key));
}

}  // namespace ravine
