// Translates steps, batches, learning rate, optimizer, loss scale and ranks of a MindFormers job.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/counted.h"
#include "config/config.h"
#include "dialects/mindformers_run.h"

namespace ravine {
namespace {

void choose_steps(Translation& t, const MindFormersSizes& s) {
  const std::string epochs = "runner_config.epochs", batch = "runner_config.batch_size";
  t.set("train.seed", t.whole("seed"), "seed");
  t.set("train.output", t.text("output_dir"), "output_dir");
  int64_t steps = s.steps;
  if (steps > 0) {
    std::string from = epochs;
    const std::string callback = callback_of(t, "TrainCallBack");
    for (const std::string& key : {std::string("runner_config.stop_step"), callback.empty() ? "" : callback + ".stop_step"})
      if (!key.empty() && gives(t, key) && t.whole(key) > 0 && t.whole(key) < steps) steps = t.whole(key), from = key;
    t.set("train.steps", steps, from);
  }
  t.set("train.micro_batch", s.micro, batch);
  t.set("train.global_batch", s.global, batch);
  if (t.is_on("calculate_per_token_loss") || t.is_on("model.model_config.calculate_per_token_loss"))
    t.set("train.loss_average", "tokens", "calculate_per_token_loss");
  else if (s.semi && s.data > 1)  // one program on all ranks: the mean over their tokens
    t.set("train.loss_average", "global-micro", "parallel.parallel_mode");
  else
    t.set("train.loss_average", "micro", "runner_config.batch_size");
  t.set("data.sequence_length", s.sequence, "model.model_config.seq_length");
  if (const std::string mean = "parallel.gradients_mean"; s.semi && s.data > 1 && t.is_on(mean))
    t.refuse(mean, "gradients_mean is True in semi_auto_parallel",
             "the loss is the mean over all data ranks, so gradients would be divided by their number twice",
             "set it to False");
  if (const std::string mean = "parallel.gradients_mean"; !s.semi && s.data > 1 && t.has(mean) && !t.is_on(mean))
    t.refuse(mean, "gradients_mean is False in data_parallel", "gradients are the mean over data ranks, not their sum",
             "set it to True");
}

int64_t layers_of_model(const Translation& t) {
  const std::string key = mindformers_model_key(t, "num_hidden_layers");
  return key.empty() ? 32 : t.whole(key);
}

// Returns the number of parts of a stage. pp_interleave_num counts with pipeline_interleave alone.
int64_t parts_of_stage(const Translation& t, const MindFormersSizes& s) {
  if (s.pipeline < 2 || !t.is_on("parallel.pipeline_config.pipeline_interleave")) return 1;
  return std::max<int64_t>(1, t.whole("model.model_config.pp_interleave_num"));
}

// Returns the layers of each pipeline part, in the order of the model: an even share plus `offset`.
std::vector<int64_t> layers_of_parts(const Translation& t, const MindFormersSizes& s) {
  const int64_t rounds = parts_of_stage(t, s);
  std::vector<int64_t> each(static_cast<size_t>(s.pipeline * rounds), layers_of_model(t) / (s.pipeline * rounds));
  size_t part = 0;
  const auto add = [&](const Json& n) {
    if (part < each.size() && n.is_number_integer()) each[part++] += n.get<int64_t>();
  };
  const Json& offset = t.value("model.model_config.offset");
  for (const Json& row : offset.is_array() ? offset : Json::array())
    if (row.is_array())
      for (const Json& n : row) add(n);
    else
      add(row);
  return each;
}

// Translates recompute. [3, 1] is a number of layers for each stage, distributed over its parts in turn. A list of
// lists has a row for each round of parts. True means all layers.
void choose_recompute_layers(Translation& t, const MindFormersSizes& s, const std::string& key) {
  const Json& given = t.value(key);
  const std::vector<int64_t> layers = layers_of_parts(t, s);
  const size_t stages = static_cast<size_t>(s.pipeline), rounds = layers.size() / stages;
  const auto refuse = [&](const std::string& rule) {
    t.refuse(key, fmt::format("recompute is {}", given.dump()), rule, "correct the list, or write True or False");
  };
  const auto count = [](const Json& n) { return n.is_boolean() ? (n.get<bool>() ? int64_t{1} << 30 : 0) : n.get<int64_t>(); };
  const auto fits = [](const Json& n) { return n.is_boolean() || (n.is_number_integer() && n.get<int64_t>() >= 0); };
  std::vector<int64_t> again(layers.size(), 0);
  const bool rows = std::all_of(given.begin(), given.end(), [](const Json& row) { return row.is_array(); });
  if (!rows) {
    if (given.size() > stages || !std::all_of(given.begin(), given.end(), fits))
      return refuse(fmt::format("it has a number of layers for each of {}", counted(static_cast<int64_t>(stages), "stage")));
    for (size_t stage = 0; stage < given.size(); ++stage) {
      int64_t left = count(given[stage]), before = -1;
      while (left > 0 && before != left) {
        before = left;
        for (size_t round = 0; round < rounds && left > 0; ++round)
          if (int64_t& n = again[round * stages + stage]; n < layers[round * stages + stage]) ++n, --left;
      }
    }
  } else {
    for (size_t round = 0; round < given.size(); ++round) {
      if (given.size() > rounds || given[round].size() > stages || !std::all_of(given[round].begin(), given[round].end(), fits))
        return refuse(fmt::format("it has a list for each of {}, with a number of layers for each of {}",
                                  counted(static_cast<int64_t>(rounds), "round"),
                                  counted(static_cast<int64_t>(stages), "stage")));
      for (size_t stage = 0; stage < given[round].size(); ++stage)
        again[round * stages + stage] = std::min(count(given[round][stage]), layers[round * stages + stage]);
    }
  }
  if (std::any_of(again.begin(), again.end(), [](int64_t n) { return n > 0; })) t.set("train.recompute_layers", again, key);
}

void choose_recompute(Translation& t, const MindFormersSizes& s) {
  const std::function<bool(const Json&)> asks = [&](const Json& v) {
    if (v.is_boolean()) return v.get<bool>();
    if (v.is_number()) return v.get<double>() > 0;
    if (v.is_object()) return std::any_of(v.begin(), v.end(), asks);  // a map of name patterns
    if (!v.is_array()) return false;
    return std::any_of(v.begin(), v.end(), [](const Json& x) {
      return x.is_array() ? std::any_of(x.begin(), x.end(), [](const Json& y) { return y.is_number() && y.get<double>() > 0; })
                          : (x.is_number() && x.get<double>() > 0) || (x.is_boolean() && x.get<bool>()) || x.is_string();
    });
  };
  const std::string full = "recompute_config.recompute", some = "recompute_config.select_recompute";
  for (const std::string& key : {full, some})
    if (t.value(key).is_string())
      t.refuse(key, fmt::format("{} is '{}'", key, t.text(key)), "it is true, false, a list, or a map of patterns",
               "write JSON behind the flag: true in small letters, names in double quotes");
  std::string patterns;  // the first key that is on
  for (const std::string& key : t.given())
    if (patterns.empty() && key.starts_with(some + ".") && asks(t.value(key))) patterns = key;
  if (t.value(full).is_array()) choose_recompute_layers(t, s, full);
  const Json& chosen = t.value(some);
  if (!asks(t.value(full)) && (((chosen.is_array() || chosen.is_object()) && asks(chosen)) || !patterns.empty()))
    t.notice(
        fmt::format("{}: which layers and operators are made again is not followed: in all layers it is what is cheap to "
                    "make, with the same numbers and other memory",
                    patterns.empty() ? some : patterns));
  if (asks(t.value(full))) {
    t.set("train.recompute", "full", full);
  } else if (asks(t.value(some))) {
    t.set("train.recompute", "cheap", some);
  } else if (!patterns.empty()) {
    t.set("train.recompute", "cheap", patterns);
  } else {
    t.set("train.recompute", "none", full);
  }
}

// Translates optimizer.type and its keys, by the names of MindFormers' classes.
void choose_optimizer(Translation& t) {
  static const std::map<std::string, std::string> kTypes = {
      {"AdamW", "adamw"}, {"FusedAdamW", "adamw"}, {"AdamWeightDecay", "adamw"}, {"FP32StateAdamWeightDecay", "adamw"},
      {"Adam", "adam"},   {"SGD", "sgd"},          {"Momentum", "sgd"},          {"Lamb", "lamb"},
      {"Came", "came"},   {"Adagrad", "adagrad"},  {"AdaFactor", "adafactor"}};
  const auto found = kTypes.find(t.text("optimizer.type"));
  if (found == kTypes.end()) return;  // refused by its row
  const std::string& type = found->second;
  // FP32StateAdamWeightDecay has f32 states with 16-bit weights; Ravine's states are f32 in any case.
  const bool uncorrected =
      t.text("optimizer.type") == "AdamWeightDecay" || t.text("optimizer.type") == "FP32StateAdamWeightDecay";
  if (uncorrected) t.set("optimizer.bias_correction", false, "optimizer.type");
  if (t.text("optimizer.type") == "Momentum")
    t.notice("checkpoints have the names of SGD, whose steps are those of Momentum: to go on there, write optimizer.type: SGD");
  t.set("optimizer.type", type, "optimizer.type");
  t.set("optimizer.weight_decay", t.number("optimizer.weight_decay"), "optimizer.weight_decay");
  const auto take = [&](const char* key, const char* option) {
    const std::string name = std::string("optimizer.") + key;
    if (t.has(name)) t.set(option, t.value(name), name);
  };
  const auto none = [&](const char* key) {
    const std::string name = std::string("optimizer.") + key;
    if (t.has(name))
      t.refuse(name, fmt::format("{} of {}", name, t.text("optimizer.type")), "it takes no such argument", "leave it out");
  };
  const bool adam = type == "adamw" || type == "adam" || type == "lamb";
  if (adam) {
    const Json& betas = t.value("optimizer.betas");
    if (t.has("optimizer.betas")) {
      t.set("optimizer.betas", betas, "optimizer.betas");
    } else {
      const double first = t.has("optimizer.beta1") ? t.number("optimizer.beta1") : 0.9;
      const double second = t.has("optimizer.beta2") ? t.number("optimizer.beta2") : 0.999;
      t.set("optimizer.betas", {first, second}, t.has("optimizer.beta1") ? "optimizer.beta1" : "optimizer.type");
    }
    const double eps = type == "lamb" || uncorrected ? 1e-6 : 1e-8;
    t.set("optimizer.eps", t.has("optimizer.eps") ? t.value("optimizer.eps") : Json(eps),
          t.has("optimizer.eps") ? "optimizer.eps" : "optimizer.type");
  } else {
    none("betas"), none("beta2");
    if (type == "sgd") {
      none("eps"), none("beta1");
      if (t.text("optimizer.type") == "Momentum" && !t.has("optimizer.momentum"))
        t.refuse({.key = "optimizer.momentum",
                  .what = "no momentum",
                  .where = t.source("optimizer.type"),
                  .rule = "the class Momentum has no default for it",
                  .fix = "write optimizer.momentum"});
      t.set("optimizer.momentum", t.has("optimizer.momentum") ? t.number("optimizer.momentum") : 0.0,
            t.has("optimizer.momentum") ? "optimizer.momentum" : "optimizer.type");
    } else {
      take("eps", "optimizer.eps"), take("beta1", "optimizer.beta1");
    }
  }
  if (type == "sgd")
    take("dampening", "optimizer.dampening"), take("nesterov", "optimizer.nesterov"),
        take("use_nesterov", "optimizer.nesterov");
  if (type == "adagrad") take("accum", "optimizer.initial_accumulator_value");
  if (type == "came" || type == "adafactor")
    for (const auto& [key, option] : {std::pair{"clip_threshold", "optimizer.clip_threshold"},
                                      {"decay_rate", "optimizer.decay_rate"},
                                      {"scale_parameter", "optimizer.scale_parameter"}})
      take(key, option);
  if (type == "came") take("beta3", "optimizer.beta3");
  if (type == "adafactor") take("relative_step", "optimizer.relative_step"), take("warmup_init", "optimizer.warmup_init");
  const std::map<std::string, std::vector<std::string>> belongs = {{"momentum", {"sgd"}},
                                                                   {"dampening", {"sgd"}},
                                                                   {"nesterov", {"sgd"}},
                                                                   {"accum", {"adagrad"}},
                                                                   {"beta3", {"came"}},
                                                                   {"clip_threshold", {"came", "adafactor"}},
                                                                   {"decay_rate", {"came", "adafactor"}},
                                                                   {"scale_parameter", {"came", "adafactor"}},
                                                                   {"relative_step", {"adafactor", "came"}},
                                                                   {"warmup_init", {"adafactor", "came"}}};
  for (const auto& [key, types] : belongs)
    if (std::find(types.begin(), types.end(), type) == types.end()) none(key.c_str());
}

void choose_rates(Translation& t, const MindFormersSizes& s) {
  static const std::map<std::string, std::string> kAlias = {{"constant_with_warmup", "ConstantWarmUpLR"},
                                                            {"linear", "LinearWithWarmUpLR"},
                                                            {"cosine", "CosineWithWarmUpLR"},
                                                            {"cosine_with_restarts", "CosineWithRestartsAndWarmUpLR"},
                                                            {"polynomial", "PolynomialWithWarmUpLR"},
                                                            {"cosine_annealing", "CosineAnnealingLR"},
                                                            {"cosine_annealing_warm_restarts", "CosineAnnealingWarmRestarts"},
                                                            {"LearningRateWiseLayer", "ConstantWarmUpLR"}};
  const std::string given = t.text("lr_schedule.type");
  const auto alias = kAlias.find(given);
  const std::string type = alias == kAlias.end() ? given : alias->second;
  t.set("schedule.type", type, "lr_schedule.type");
  std::string key;
  for (const char* name : {"lr_schedule.learning_rate", "lr_schedule.base_lr", "optimizer.learning_rate"})
    if (key.empty() && t.has(name)) key = name;
  if (key.empty() && t.has("lr_schedule.type"))
    t.refuse({.key = "lr_schedule.learning_rate",
              .what = "no learning_rate",
              .where = t.source("lr_schedule.type"),
              .rule = "a schedule that is given has no default rate",
              .fix = "write lr_schedule.learning_rate"});
  double rate = key.empty() ? 5e-5 : t.number(key);
  if (t.is_on("lr_scale")) {
    rate = rate * static_cast<double>(s.ranks) * static_cast<double>(s.micro) /
           static_cast<double>(std::max<int64_t>(1, t.whole("lr_scale_factor")));
    t.set("optimizer.lr", rate, "lr_scale");
  } else {
    t.set("optimizer.lr", rate, key.empty() ? "lr_schedule.type" : key);
  }
  int64_t total = t.whole("lr_schedule.total_steps");
  const std::string annealing = "CosineAnnealing";
  if (!type.starts_with(annealing)) {
    if (total <= 0) total = s.steps;
    if (total > 0) t.set("schedule.total_steps", total, "lr_schedule.total_steps");
    const std::string epochs = "lr_schedule.warmup_epochs";
    if (t.has(epochs))
      t.set("schedule.warmup_steps", static_cast<int64_t>(t.number(epochs) * static_cast<double>(s.steps_per_epoch)), epochs);
    else
      t.set("schedule.warmup_steps", t.whole("lr_schedule.warmup_steps"),
            t.has("lr_schedule.warmup_steps") ? "lr_schedule.warmup_steps" : "lr_schedule.type");
  }
  for (const char* name : {"warmup_ratio", "warmup_lr_init", "lr_end", "lr_end1", "lr_end2", "num_cycles", "power",
                           "decay_ratio", "decay_start_ratio", "eta_min", "lr_scale", "decay_steps", "keep_steps",
                           "final_steps", "decay_start_steps", "t_max", "t_0", "t_mult"})
    if (const std::string whole = std::string("lr_schedule.") + name; t.has(whole))
      t.set(std::string("schedule.") + name, t.value(whole), whole);
}

// Sets a constant loss scale.
void set_fixed_scale(Translation& t, const std::string& key) {
  if (!(t.number(key) > 0))
    t.refuse(key, fmt::format("{} is {}", key, t.number(key)), "losses are multiplied by it: it is above 0",
             "write 1, or scale_sense.type: DynamicLossScaleUpdateCell");
  t.set("precision.loss_scale", t.number(key), key);
}

void choose_loss_scale(Translation& t) {
  const std::string at = "runner_wrapper.scale_sense";
  const bool section = t.has("runner_wrapper.type");
  const auto moving = [&](double first, double factor, int64_t window, const std::string& from) {
    t.set("precision.loss_scale", 0, from);
    t.set("precision.scale_rule", "mindformers", from);
    t.set("precision.scale_initial", first, t.has(at + ".loss_scale_value") ? at + ".loss_scale_value" : from);
    t.set("precision.scale_factor", factor, t.has(at + ".scale_factor") ? at + ".scale_factor" : from);
    t.set("precision.scale_window", window, t.has(at + ".scale_window") ? at + ".scale_window" : from);
    t.set("precision.scale_min", 1, from);
  };
  if (!section) return moving(65536, 2, 1000, "runner_wrapper.type");
  if (t.has(at)) return set_fixed_scale(t, at);
  const std::string type = t.text(at + ".type");
  if (type.empty()) {
    for (const char* part : {"loss_scale_value", "scale_factor", "scale_window", "max_scale_window", "min_scale_window"})
      if (gives(t, at + "." + part)) {
        t.refuse(at + "." + part, "scale_sense has no type", "a map names the class of its loss scale",
                 "write scale_sense.type: DynamicLossScaleUpdateCell, or scale_sense: NUMBER");
        return;
      }
    t.set("precision.loss_scale", 1.0, "runner_wrapper.type");
    return;
  }
  const auto needs = [&](const char* key) {
    const std::string whole = at + "." + key;
    if (!t.has(whole)) t.refuse(whole, fmt::format("{} without {}", type, key), "it has no default", "write it");
    return t.number(whole);
  };
  const double first = needs("loss_scale_value");
  if (type == "FixedLossScaleUpdateCell") return set_fixed_scale(t, at + ".loss_scale_value");
  const double factor = needs("scale_factor");
  moving(first, factor, static_cast<int64_t>(needs("scale_window")), at + ".type");
  if (type == "AdaptiveLossScaleUpdateCell") {
    const int64_t longest = t.whole(at + ".max_scale_window"), shortest = t.whole(at + ".min_scale_window");
    t.set("precision.scale_rule", "mindformers-adaptive", at + ".type");
    t.set("precision.scale_window_max", longest, t.has(at + ".max_scale_window") ? at + ".max_scale_window" : at + ".type");
    t.set("precision.scale_window_min", shortest, t.has(at + ".min_scale_window") ? at + ".min_scale_window" : at + ".type");
    if (longest <= shortest)
      t.refuse(at + ".max_scale_window", fmt::format("max_scale_window {} and min_scale_window {}", longest, shortest),
               "the first is larger than the second", "correct one of them");
  }
}

void choose_guards(Translation& t, bool semi) {
  const std::string type = t.text("runner_wrapper.type");
  const bool section = t.has("runner_wrapper.type");
  const bool pipeline_cell = type == "MFPipelineWithLossScaleCell" || type == "pipeline_wrapper";
  if (section && pipeline_cell && !semi)
    t.refuse("runner_wrapper.type", fmt::format("runner_wrapper.type is {}", type),
             "this wrapper is for semi-automatic parallelism alone", "write MFTrainOneStepCell");
  const bool clips =
      t.has("runner_wrapper.use_clip_grad") ? t.is_on("runner_wrapper.use_clip_grad") : !section || pipeline_cell;
  const double norm = t.number("runner_wrapper.max_grad_norm");
  if (clips && norm <= 0)
    t.refuse("runner_wrapper.max_grad_norm", fmt::format("max_grad_norm is {}", norm), "it is above 0",
             "correct it, or set use_clip_grad: False");
  t.set("optimizer.clip_norm", clips ? norm : 0.0,
        t.has("runner_wrapper.max_grad_norm") ? "runner_wrapper.max_grad_norm" : "runner_wrapper.type");
  const bool skips = t.is_on("use_skip_data_by_global_norm");
  const bool stops = t.is_on("monitor_config.check_for_global_norm"), monitors = t.is_on("monitor_config.monitor_on");
  const std::string limit = "monitor_config.global_norm_spike_threshold",
                    count = "monitor_config.global_norm_spike_count_threshold";
  if (skips && stops)
    t.refuse("monitor_config.check_for_global_norm", "check_for_global_norm and use_skip_data_by_global_norm are both on",
             "a step whose norm is too large is skipped, or ends the run", "turn one of them off");
  if ((skips || stops) && t.number(limit) <= 0)
    t.refuse(limit, fmt::format("global_norm_spike_threshold is {}", t.number(limit)), "it is above 0", "correct it");
  if (skips) {
    if (!clips)
      t.refuse("runner_wrapper.use_clip_grad", "use_clip_grad is off, and use_skip_data_by_global_norm on",
               "the norm that steps are skipped by is that of clipping", "set use_clip_grad: True");
    t.set("health.skip_norm", t.number(limit), limit);
    if (t.whole(count) < 1)
      t.refuse(count, fmt::format("global_norm_spike_count_threshold is {}", t.whole(count)), "it is 1 or more", "correct it");
    t.set("health.skip_count", monitors ? t.whole(count) : 0, count);
  } else if (stops && monitors) {
    t.set("health.stop_norm", t.number(limit), limit);
  }
  if (t.is_on("check_for_nan_in_loss_and_grad")) t.set("health.stop_not_finite", true, "check_for_nan_in_loss_and_grad");
  const bool local = t.is_on("runner_wrapper.local_norm");
  if (local) t.set("log.local_norms", "*", "runner_wrapper.local_norm");
  if (t.is_on("use_checkpoint_health_monitor")) {
    if (!local)
      t.refuse("runner_wrapper.local_norm", "use_checkpoint_health_monitor is on, and local_norm off",
               "a checkpoint is judged by the local norm of the embedding", "set runner_wrapper.local_norm: True");
    const std::string monitor = callback_of(t, "CheckpointMonitor");
    const std::string key = monitor + ".embedding_local_norm_threshold";
    t.set("health.embedding_norm", monitor.empty() ? 1.0 : t.number(key),
          monitor.empty() || !t.has(key) ? "use_checkpoint_health_monitor" : key);
  }
}

}  // namespace

void set_mindformers_ranks(Translation& t, const MindFormersSizes& s) {
  if (!s.semi && s.data * s.tensor * s.pipeline == 1) return;
  if (s.data > 1) t.set("parallel.data", s.data, "parallel_config.data_parallel");
  if (s.tensor > 1) {
    t.set("parallel.tensor", s.tensor, "parallel_config.model_parallel");
    if (t.is_on("parallel_config.use_seq_parallel")) t.set("parallel.sequence", true, "parallel_config.use_seq_parallel");
  }
  if (s.expert > 1) t.set("parallel.expert", s.expert, "parallel_config.expert_parallel");
  if (s.pipeline > 1) {
    t.set("parallel.pipeline", s.pipeline, "parallel_config.pipeline_stage");
    const std::string parts = "model.model_config.pp_interleave_num",
                      interleave = "parallel.pipeline_config.pipeline_interleave";
    const int64_t virtual_stages = parts_of_stage(t, s);
    if (virtual_stages > 1)
      t.set("parallel.virtual", virtual_stages, parts);
    else if (t.whole(parts) > 1)
      t.becomes(parts, KeyStatus::inert, "it counts with pipeline_config.pipeline_interleave alone, in MindFormers too");
    else if (t.has(interleave))
      t.becomes(interleave, KeyStatus::inert, "it counts with pp_interleave_num above 1 alone");
    const std::string key = "model.model_config.offset";
    const Json& offset = t.value(key);
    if (offset.is_array() && !offset.empty()) {
      const std::vector<int64_t> each = layers_of_parts(t, s);
      const int64_t layers = layers_of_model(t), parts = s.pipeline * virtual_stages, share = layers / parts;
      int64_t sum = 0, entries = 0;
      for (const int64_t n : each) sum += n;
      for (const Json& row : offset) entries += row.is_array() ? static_cast<int64_t>(row.size()) : 1;
      if (entries != parts || sum != layers)
        t.refuse(
            key, fmt::format("offset is {}", offset.dump()),
            fmt::format("{} parts of {} layers get {} each, and what offset adds has to make {}", parts, layers, share, layers),
            "correct the list");
      else
        t.set("parallel.stage_layers", each, key);
    }
  }
  if (t.is_on("parallel.enable_parallel_optimizer") && s.data > 1) {
    const std::string shard = "parallel.parallel_optimizer_config.gradient_accumulation_shard";
    const bool divides = t.is_on(shard) && s.micro_batches > 1;
    if (!divides && t.has(shard))
      t.becomes(shard, KeyStatus::inert,
                t.is_on(shard) ? "a step has one micro batch, whose gradients are not added up"
                               : "gradients are whole on each rank, as without it");
    t.set("parallel.zero", divides ? 2 : 1, divides ? shard : "parallel.enable_parallel_optimizer");
  }
  const std::string strategy = "parallel.dataset_strategy";
  if (s.data * s.tensor * s.pipeline > 1 && gives(t, "parallel.full_batch") && !t.is_on("parallel.full_batch")) {
    const Json& given = t.value(strategy);
    const Json* first = given.is_array() && !given.empty() && given[0].is_array() && !given[0].empty() ? &given[0][0] : nullptr;
    if (!first)
      t.notice(fmt::format("MindFormers needs parallel.dataset_strategy beside full_batch: False, here [[{}, 1]]", s.data));
    else if (!std::all_of(given.begin(), given.end(), [&](const Json& column) {
               return column.is_array() && !column.empty() && column[0] == s.data &&
                      std::all_of(column.begin() + 1, column.end(), [](const Json& cuts) { return cuts == 1; });
             }))
      t.refuse(strategy, fmt::format("dataset_strategy is {}", given.dump()),
               fmt::format("with full_batch: False rows are cut alone, over data_parallel: each of its lists is [{}, 1, ..]",
                           s.data),
               "correct it");
  }
  const std::string shards = "parallel.parallel_optimizer_config.optimizer_weight_shard_size";
  if (const int64_t size = t.whole(shards); size > 0 && s.data % size != 0)
    t.refuse(shards, fmt::format("optimizer_weight_shard_size is {}, and data_parallel {}", size, s.data),
             "it divides the data ranks", "choose a number that divides data_parallel, or -1");
}

void set_mindformers_updates(Translation& t, const MindFormersSizes& s) {
  choose_steps(t, s);
  set_mindformers_ranks(t, s);
  choose_recompute(t, s);
  choose_optimizer(t);
  choose_rates(t, s);
  choose_loss_scale(t);
  choose_guards(t, s.semi);
}

}  // namespace ravine
