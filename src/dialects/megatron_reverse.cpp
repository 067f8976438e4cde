// Writes a config as flags of Megatron's training program of 2024.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/shell_word.h"
#include "config/yaml_json.h"
#include "dialects/megatron.h"
#include "dialects/megatron_run.h"
#include "dialects/reverse.h"

namespace ravine {
namespace {

// Keys of a config.json that do not describe the network.
constexpr const char* kSilentModelKeys[] = {"architectures",        "auto_map",     "bos_token_id",    "dtype",
                                            "eos_token_id",         "pad_token_id", "tokenizer_class", "torch_dtype",
                                            "transformers_version", "use_cache",    "_name_or_path"};
// Options on the format of Megatron's files and log lines, which are not compared.
const std::vector<std::string> kOwnForm = {"log.style",  "checkpoint.keep", "checkpoint.layout",
                                           "model.path", "model.config",    "parallel.data"};

class MegatronFlags {
 public:
  MegatronFlags(const Config& c, const Json& described) : c_(c), m_(described) {}

  std::vector<PlacedWord> all() {
    if (m_.is_object()) network();
    steps();
    optimizer();
    precision();
    layout();
    data();
    files();
    return words_;
  }
  std::string text() const { return text_; }

 private:
  void add(const std::string& key, const Json& value) {
    std::vector<std::string> values;
    for (const Json& v : value.is_array() ? value : Json::array({value}))
      values.push_back(v.is_string() ? v.get<std::string>() : v.dump());
    words_.push_back({key, "flags"});
    text_ += key;
    for (const std::string& v : values) {
      words_.push_back({v, "flags"});
      text_ += " " + shell_word(v);
    }
    text_ += "\n";
  }
  void add(const std::string& key) {
    words_.push_back({key, "flags"});
    text_ += key + "\n";
  }
  void add_if(bool on, const std::string& key) {
    if (on) add(key);
  }
  void option(const std::string& key, const std::string& name) { add(key, option_value(c_, name)); }

  // Returns a key of config.json; a missing key has the default of Transformers, `otherwise`.
  Json model(const char* key, const Json& otherwise) const {
    const auto it = m_.find(key);
    return it != m_.end() && !it->is_null() ? *it : otherwise;
  }

  void network() {
    const std::string family = model("model_type", "").is_string() ? model("model_type", "").get<std::string>() : "";
    const bool gpt2 = family == "gpt2", bloom = family == "bloom", neox = family == "gpt_neox", old = gpt2 || bloom || neox;
    const bool alibi = bloom || m_.contains("model_max_length");
    const Json hidden = model("hidden_size", model("n_embd", nullptr)),
               heads = model("num_attention_heads", model("n_head", nullptr));
    add("--num-layers", model("num_hidden_layers", model("n_layer", nullptr)));
    add("--hidden-size", hidden);
    add("--num-attention-heads", heads);
    const Json positions = model(bloom   ? "seq_length"
                                 : alibi ? "model_max_length"
                                         : "max_position_embeddings",
                                 model("n_positions", c_.data.sequence_length));
    add("--max-position-embeddings", positions);
    add("--position-embedding-type", gpt2 ? "learned_absolute" : alibi ? "alibi" : "rope");
    const Json width = model("intermediate_size", model("n_inner", nullptr));
    if (!width.is_null()) add("--ffn-hidden-size", width);
    if (old) {
      add("--norm-epsilon", model(neox ? "layer_norm_eps" : "layer_norm_epsilon", 1e-5));
      add_if(bloom, "--embed-layernorm");
      if (neox) add("--rotary-percent", model("rotary_pct", 0.25)), add("--rotary-base", model("rotary_emb_base", 10000));
    } else {
      add("--normalization", "RMSNorm");
      add("--norm-epsilon", model("rms_norm_eps", 1e-6));
      add("--swiglu");
      gated_network(family, alibi, heads);
    }
    if (const Json size = model("head_dim", nullptr); size.is_number_integer()) add("--kv-channels", size);
    add("--init-method-std", model("initializer_range", 0.02));
    const bool tied = model("tie_word_embeddings", gpt2 || bloom).get<bool>();
    add_if(!tied, "--untie-embeddings-and-output-weights");
    if (const Json rows = model("vocab_size", nullptr); rows.is_number_integer()) add("--padded-vocab-size", rows);
  }

  void gated_network(const std::string& family, bool alibi, const Json& heads) {
    const bool own_bias = family == "llama",
               qkv = family == "qwen2" || (own_bias && model("attention_bias", false).get<bool>());
    const bool mlp = own_bias && model("mlp_bias", false).get<bool>();
    if (!(qkv && mlp)) {
      add("--disable-bias-linear");
      add_if(qkv, "--add-qkv-bias");
      add_if(qkv && own_bias, "--add-dense-bias");
    }
    if (family != "baichuan") {
      const Json groups = model("num_key_value_heads", heads);
      if (groups != heads) add("--group-query-attention"), add("--num-query-groups", groups);
      if (!alibi) add("--rotary-base", model("rope_theta", 10000));
    }
    add_if(m_.contains("z_loss_weight"), "--lm-norm-weight");
    if (const Json scaling = model("rope_scaling", nullptr); scaling.is_object() && scaling.value("type", "") == "linear")
      add("--rotary-seq-len-interpolation-factor", scaling.value("factor", 1.0));
    if (family != "mixtral") return;
    add("--num-experts", model("num_local_experts", 8));
    add("--moe-router-topk", model("num_experts_per_tok", 2));
    option("--expert-model-parallel-size", "parallel.expert");
    const bool aux = c_.moe.load_balance == LoadBalance::aux ||
                     (c_.moe.load_balance == LoadBalance::stored && model("output_router_logits", false).get<bool>());
    add("--moe-aux-loss-coeff",
        aux ? (c_.moe.aux_loss ? Json(*c_.moe.aux_loss) : model("router_aux_loss_coef", 0.001)) : Json(0.0));
    if (c_.moe.capacity_factor > 0) option("--moe-train-capacity-factor", "moe.capacity_factor");
    if (c_.moe.z_loss) option("--moe-z-loss-coeff", "moe.z_loss");
  }

  void steps() {
    option("--micro-batch-size", "train.micro_batch");
    option("--global-batch-size", "train.global_batch");
    option("--train-iters", "train.steps");
    option("--seed", "train.seed");
    option("--lr", "optimizer.lr");
    const ScheduleOptions& s = c_.schedule;
    const bool own = s.type == ScheduleType::OptimizerParamScheduler;
    // Schedules of other classes differ from Megatron's, even with the same name: the nearest is written.
    const std::string name = option_value(c_, "schedule.type").get<std::string>();
    add("--lr-decay-style", own                            ? option_value(c_, "schedule.lr_decay_style")
                            : name.starts_with("cosine")   ? Json("cosine")
                            : name.starts_with("constant") ? Json("constant")
                            : name == "inverse_sqrt"       ? Json("inverse-square-root")
                                                           : Json("linear"));
    add("--min-lr", own ? s.classes.min_lr : name.starts_with("cosine") ? s.min_lr_ratio * c_.optimizer.lr : 0.0);
    if (own) add("--lr-warmup-init", s.classes.lr_warmup_init);
    const double warmup = own ? s.classes.lr_warmup_steps : name == "constant" ? 0 : static_cast<double>(s.warmup_steps);
    const double decay = own && s.classes.lr_decay_steps > 0 ? s.classes.lr_decay_steps
                                                             : static_cast<double>(s.steps > 0 ? s.steps : c_.train.steps);
    const bool whole = warmup == static_cast<double>(static_cast<int64_t>(warmup));
    if (whole)
      add("--lr-warmup-iters", static_cast<int64_t>(warmup));
    else
      add("--lr-warmup-fraction", warmup / decay);
    add("--lr-decay-iters", static_cast<int64_t>(decay));
  }

  void optimizer() {
    const OptimizerOptions& o = c_.optimizer;
    add("--optimizer", o.type == OptimizerType::sgd ? "sgd" : o.type == OptimizerType::cadam ? "cadam" : "adam");
    if (o.type == OptimizerType::adamw) {
      add("--adam-beta1", o.betas[0]);
      add("--adam-beta2", o.betas[1]);
      add("--adam-eps", o.eps[0]);
    } else if (o.type == OptimizerType::cadam) {
      option("--adam-beta1", "optimizer.beta1");
    } else if (o.type == OptimizerType::sgd) {
      option("--sgd-momentum", "optimizer.momentum");
    }
    option("--weight-decay", "optimizer.weight_decay");
    option("--clip-grad", "optimizer.clip_norm");
    option("--attention-dropout", "train.attention_dropout");
    option("--hidden-dropout", "train.dropout");
  }

  void precision() {
    const PrecisionOptions& p = c_.precision;
    add_if(p.compute == DType::bf16, "--bf16");
    if (p.compute != DType::f16) return;
    add("--fp16");
    add_if(p.gradients == GradientType::compute, "--release-fp32-grad");
    if (p.loss_scale.value_or(0) > 0) return option("--loss-scale", "precision.loss_scale");
    option("--initial-loss-scale", "precision.scale_initial");
    option("--min-loss-scale", "precision.scale_min");
    option("--loss-scale-window", "precision.scale_window");
    option("--hysteresis", "precision.scale_hysteresis");
  }

  void layout() {
    const ParallelOptions& p = c_.parallel;
    option("--tensor-model-parallel-size", "parallel.tensor");
    option("--pipeline-model-parallel-size", "parallel.pipeline");
    add_if(p.sequence, "--sequence-parallel");
    add_if(p.zero > 0, "--use-distributed-optimizer");
    if (const Json layers = model("num_hidden_layers", nullptr);
        p.virtual_stages > 1 && layers.is_number_integer() && p.stage_layers.empty())
      add("--num-layers-per-virtual-pipeline-stage", layers.get<int64_t>() / p.pipeline / p.virtual_stages);
    if (!p.stage_layers.empty()) add("--num-layer-list", fmt::format("{}", fmt::join(p.stage_layers, ",")));
    if (c_.train.recompute == Recompute::full) {
      add("--recompute-granularity", "full");
      const std::vector<int64_t>& again = c_.train.recompute_layers;
      const bool first = !again.empty() && std::all_of(again.begin(), again.end(), [&](int64_t n) { return n == again[0]; });
      add("--recompute-method", first ? "block" : "uniform");
      add("--recompute-num-layers", first ? again[0] : 1);
    } else if (c_.train.recompute == Recompute::automatic) {
      option("--auto-recompute-device-size", "train.memory_mb");
    }
  }

  Json prefixes(const std::vector<DataSource>& sources) const {
    const std::vector<double> weights = source_weights(sources);
    Json words = Json::array();
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!weights.empty()) words.push_back(weights[i]);
      words.push_back(sources[i].path);
    }
    return words;
  }

  void data() {
    if (!c_.data.train.empty()) add(c_.data.valid.empty() ? "--data-path" : "--train-data-path", prefixes(c_.data.train));
    if (!c_.data.valid.empty()) add("--valid-data-path", prefixes(c_.data.valid));
    const Json split = option_value(c_, "data.split");
    if (split.is_string() && !split.get<std::string>().empty()) add("--split", split);
    option("--seq-length", "data.sequence_length");
    add_if(c_.data.reset_position_ids, "--reset-position-ids");
    add_if(c_.data.reset_attention_mask, "--reset-attention-mask");
    add_if(c_.data.eod_mask_loss, "--eod-mask-loss");
    if (!c_.data.index_cache.empty()) option("--data-cache-path", "data.index_cache");
    const int64_t micro = std::max<int64_t>(1, c_.train.global_batch / std::max<int64_t>(1, c_.train.micro_batch));
    add("--eval-interval", c_.train.valid_every > 0 ? c_.train.valid_every : c_.train.steps + 1);
    add("--eval-iters", c_.train.valid_every > 0 ? c_.train.valid_batches / micro : 0);
    if (c_.model.tokenizer.empty() && c_.model.path.empty()) return add("--tokenizer-type", "NullTokenizer");
    add("--tokenizer-type", "PretrainedFromHF");
    add("--tokenizer-name-or-path", c_.model.tokenizer.empty() ? c_.model.path : c_.model.tokenizer);
  }

  void files() {
    const std::string& resume = c_.checkpoint.resume;
    const bool megatron = c_.checkpoint.layout == CheckpointLayout::megatron;
    if (megatron && resume != kResumeNewest && resume != kResumeNone)
      option("--load", "checkpoint.resume");
    else if (!c_.model.path.empty())
      option("--load", "model.path");
    else if (megatron && resume == kResumeNewest && c_.checkpoint.every > 0)
      option("--load", "train.output");
    if (c_.checkpoint.every > 0) {
      option("--save", "train.output");
      option("--save-interval", "checkpoint.every");
      add_if(megatron && !c_.checkpoint.optimizer, "--no-save-optim");
    }
    option("--log-interval", "log.every");
    const LogOptions& log = c_.log;
    if (log.tensorboard) {
      add("--tensorboard-dir", log.tensorboard_dir.empty() ? c_.train.output + "/tensorboard" : log.tensorboard_dir);
      if (steps_between_points(log) != 1) add("--tensorboard-log-interval", steps_between_points(log));
      const auto& omit = log.tensorboard_omit;
      for (const ScalarSwitch& s : scalar_switches())
        add_if((std::find(omit.begin(), omit.end(), s.tags[0]) != omit.end()) == s.removes, s.flag);
    }
    const auto asks = [&](const char* figure) {
      return std::find(log.figures.begin(), log.figures.end(), figure) != log.figures.end();
    };
    add_if(asks("weight_norm"), "--log-params-norm");
    add_if(asks("gradient_zeros"), "--log-num-zeros-in-grad");
    add_if(asks("tflops"), "--log-throughput");
    if (c_.train.exit_every > 0) option("--exit-interval", "train.exit_every");
    if (c_.train.exit_minutes > 0 && c_.train.exit_minutes == std::floor(c_.train.exit_minutes))
      add("--exit-duration-in-mins", static_cast<int64_t>(c_.train.exit_minutes));
    if (c_.lora.rank > 0 && !c_.lora.targets.empty()) {
      option("--lora-target-modules", "lora.targets");
      option("--lora-r", "lora.rank");
      option("--lora-alpha", "lora.alpha");
      if (!c_.lora.save.empty()) option("--lora-modules-to-save", "lora.save");
    }
    if (!c_.lora.path.empty()) option("--lora-load", "lora.path");
  }

  const Config& c_;
  const Json& m_;
  std::vector<PlacedWord> words_;
  std::string text_;
};

// Reports fields of the model that the flags do not have or that they set to another value.
void compare_models(const Json& described, const Config& got, ForeignForm& form) {
  if (!described.is_object() || !got.model.path.empty()) return;  // a folder of weights has its config.json
  const Json theirs = got.model.config.empty() ? Json::object() : parse_json(got.model.config, "model.config");
  for (const auto& [key, value] : described.items()) {
    if (std::find(std::begin(kSilentModelKeys), std::end(kSilentModelKeys), key) != std::end(kSilentModelKeys)) continue;
    const Json said = theirs.value(key, Json());
    if (value != said && !value.is_null())
      form.unsaid.push_back({"model.config." + key, flow_yaml(value), said.is_null() ? "nothing" : flow_yaml(said)});
  }
}

}  // namespace

ForeignForm megatron_form(const Config& config, const Json& described) {
  MegatronFlags flags(config, described);
  const std::vector<PlacedWord> words = flags.all();
  ForeignForm form;
  form.text = flags.text();
  if (!described.is_object())
    form.notices.push_back("the config names no model, whose sizes the program needs: set model.config or model.path");
  MegatronJob job;
  if (config.parallel.data > 0) job.ranks = config.parallel.data * config.parallel.tensor * config.parallel.pipeline;
  const Translation back = translate_megatron(words, job);
  if (!back.refusals().empty()) {
    for (const KeyRefusal& r : back.refusals())
      form.notices.push_back(fmt::format("the program would refuse {}: {}", r.what, r.rule));
    return form;
  }
  try {
    const Config got = config_of(back);
    form.unsaid = unsaid_options(config, got, kOwnForm);
    compare_models(described, got, form);
  } catch (const UserError& e) {
    form.notices.push_back(fmt::format("the flags do not come to a config: {}", e.what()));
  }
  return form;
}

}  // namespace ravine
