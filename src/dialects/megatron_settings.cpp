// Translates the flags of Megatron's training programs into options.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "dialects/megatron_run.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

void set_steps(Translation& t, const MegatronSizes& s) {
  const bool samples = t.has("--train-samples");
  const double batch = static_cast<double>(std::max<int64_t>(1, s.global));
  t.set("train.micro_batch", s.micro, "--micro-batch-size");
  t.set("train.global_batch", s.global, "--global-batch-size");
  t.set("train.steps", s.steps, samples ? "--train-samples" : "--train-iters");
  t.set("train.loss_average", "micro", "--micro-batch-size");
  t.set("train.seed", t.value("--seed"), "--seed");
  t.set("optimizer.lr", t.value("--lr"), "--lr");
  // With samples, Megatron counts the schedule in samples; with a constant batch size they convert to steps.
  const std::string decay_key = samples ? "--lr-decay-samples" : "--lr-decay-iters";
  const double decay = t.has(decay_key) ? t.number(decay_key) / (samples ? batch : 1)
                       : samples        ? t.number("--train-samples") / batch
                                        : static_cast<double>(s.steps);
  const double warmup = t.has("--lr-warmup-fraction") ? t.number("--lr-warmup-fraction") * decay
                        : samples                     ? t.number("--lr-warmup-samples") / batch
                                                      : t.number("--lr-warmup-iters");
  t.set("schedule.type", "OptimizerParamScheduler", "--lr-decay-style");
  t.set("schedule.lr_decay_style", t.value("--lr-decay-style"), "--lr-decay-style");
  t.set("schedule.min_lr", t.value("--min-lr"), "--min-lr");
  t.set("schedule.lr_warmup_init", t.value("--lr-warmup-init"), "--lr-warmup-init");
  t.set("schedule.lr_warmup_steps", warmup,
        t.has("--lr-warmup-fraction") ? "--lr-warmup-fraction"
        : samples                     ? "--lr-warmup-samples"
                                      : "--lr-warmup-iters");
  t.set("schedule.lr_decay_steps", decay, decay_key);
  if (t.has("--ignore-ramp") && !t.has("--rampup-batch-size"))
    t.becomes("--ignore-ramp", KeyStatus::inert, "--rampup-batch-size is not given");
  if (t.has("--rampup-batch-size") && t.refusals().empty())
    t.notice(fmt::format("--rampup-batch-size is not followed: every batch has {} sequences, and the run {} steps", s.global,
                         s.steps));
}

void set_optimizer(Translation& t) {
  const std::string kind = t.text("--optimizer");
  const auto idle = [&](const char* key) {
    if (t.has(key)) t.becomes(key, KeyStatus::inert, fmt::format("--optimizer {} has none", kind));
  };
  t.set("optimizer.type", kind == "cadam" ? "cadam" : kind == "sgd" ? "sgd" : "adamw", "--optimizer");
  t.set("optimizer.decay", "matrices", "--weight-decay");
  t.set("optimizer.clip_norm", t.value("--clip-grad"), "--clip-grad");
  double decay = t.number("--weight-decay");
  if (t.has("--start-weight-decay") || t.has("--end-weight-decay")) {
    const double begin = t.number("--start-weight-decay"), end = t.number("--end-weight-decay");
    if (begin != end || !t.has("--start-weight-decay") || !t.has("--end-weight-decay"))
      t.refuse("--end-weight-decay", fmt::format("--start-weight-decay {}, --end-weight-decay {}", begin, end),
               "the weight decay does not change within a run", "write --weight-decay");
    decay = begin;
  }
  if (t.has("--weight-decay-incr-style"))
    t.becomes("--weight-decay-incr-style", KeyStatus::inert, "the weight decay does not change within a run");
  t.set("optimizer.weight_decay", decay, "--weight-decay");
  if (kind == "cadam") {
    t.set("optimizer.beta1", t.value("--adam-beta1"), "--adam-beta1");
    t.becomes("--adam-beta1", KeyStatus::used, "optimizer.beta1");
    idle("--adam-beta2"), idle("--adam-eps");
  } else if (kind == "sgd") {
    t.set("optimizer.momentum", t.value("--sgd-momentum"), "--sgd-momentum");
    idle("--adam-beta1"), idle("--adam-beta2"), idle("--adam-eps");
  } else {
    t.set("optimizer.betas", Json::array({t.number("--adam-beta1"), t.number("--adam-beta2")}), "--adam-beta1");
    t.set("optimizer.eps", t.value("--adam-eps"), "--adam-eps");
  }
  if (kind != "sgd") idle("--sgd-momentum");
  t.set("train.attention_dropout", t.value("--attention-dropout"), "--attention-dropout");
  t.set("train.dropout", t.value("--hidden-dropout"), "--hidden-dropout");
}

// Refuses a --deepspeed_config whose precision differs from the flags: DeepSpeed uses the precision of its file.
void check_deepspeed_precision(Translation& t, const Json& deepspeed) {
  const char* key = "--deepspeed_config";
  for (const KeyRefusal& r : t.refusals())
    if (r.key == key) return;
  if (!t.is_on("--deepspeed") || !t.has(key)) return;
  for (const char* type : {"fp16", "bf16"}) {
    const auto part = deepspeed.find(type);
    const bool there = part != deepspeed.end() && part->is_object() && part->value("enabled", Json(false)) == Json(true);
    const std::string flag = std::string("--") + type;
    if (there && !t.is_on(flag))
      t.refuse(key, fmt::format("{}.enabled of {} without {}", type, key, flag), "both name the same precision",
               fmt::format("give {}, or switch {}.enabled off", flag, type));
    else if (!there && t.is_on("--fp16") && flag == "--fp16")
      t.refuse(key, fmt::format("--fp16, and {} has no fp16.enabled", key), "both name the same precision",
               "write fp16: {enabled: true} into the file, or leave --fp16 out");
  }
}

void set_precision(Translation& t, const Json& deepspeed) {
  const bool half = t.is_on("--fp16");
  check_deepspeed_precision(t, deepspeed);
  t.set("precision.compute", half ? "f16" : t.is_on("--bf16") ? "bf16" : "f32", half ? "--fp16" : "--bf16");
  if (!half) {
    for (const char* key : {"--loss-scale", "--initial-loss-scale", "--min-loss-scale", "--loss-scale-window", "--hysteresis"})
      if (t.has(key)) t.becomes(key, KeyStatus::inert, "only gradients of fp16 are scaled");
    if (t.has("--release-fp32-grad"))
      t.becomes("--release-fp32-grad", KeyStatus::inert,
                "only gradients of fp16 are kept in 16 bits: those of bf16 are f32 there too");
    return;
  }
  if (t.is_on("--release-fp32-grad") && !t.is_on("--accumulate-allreduce-grads-in-fp32"))
    t.set("precision.gradients", "compute", "--release-fp32-grad");
  double scale = t.has("--loss-scale") ? t.number("--loss-scale") : 0, initial = t.number("--initial-loss-scale"),
         least = t.number("--min-loss-scale");
  int64_t window = t.whole("--loss-scale-window"), hysteresis = t.whole("--hysteresis");
  if (const auto fp16 = deepspeed.find("fp16"); fp16 != deepspeed.end() && fp16->is_object()) {
    const auto number = [&](const char* key, double otherwise) {
      const auto it = fp16->find(key);
      return it != fp16->end() && it->is_number() ? it->get<double>() : otherwise;
    };
    scale = number("loss_scale", 0);
    initial = std::exp2(number("initial_scale_power", 16));
    window = static_cast<int64_t>(number("loss_scale_window", 1000));
    hysteresis = static_cast<int64_t>(number("hysteresis", 2));
    least = number("min_loss_scale", 1);
  }
  t.set("precision.loss_scale", scale, "--loss-scale");
  if (scale > 0) return;
  t.set("precision.scale_initial", initial, "--initial-loss-scale");
  t.set("precision.scale_window", window, "--loss-scale-window");
  t.set("precision.scale_hysteresis", hysteresis, "--hysteresis");
  t.set("precision.scale_min", least, "--min-loss-scale");
}

void set_layers(Translation& t, const MegatronSizes& s, const char* key) {
  Json layers = Json::array();
  int64_t sum = 0;
  for (const std::string& word : split(t.text(key), ',')) {
    const YamlNode n = resolve_scalar(word);
    layers.push_back(n.kind == YamlNode::Kind::integer ? n.integer : 0);
    sum += layers.back().get<int64_t>();
  }
  if (static_cast<int64_t>(layers.size()) != s.pipeline || sum != s.layers)
    return t.refuse(key, fmt::format("{} is {}", key, t.text(key)),
                    fmt::format("it has a number for each of {} stages, {} layers in all", s.pipeline, s.layers), "correct it");
  t.set("parallel.stage_layers", layers, key);
}

// Translates the flags that shard the saved inputs of layers over tensor ranks. Ravine does this by sequence
// parallelism.
void cut_kept_activations(Translation& t, const MegatronSizes& s) {
  const int64_t length = t.whole("--seq-length");
  const bool deepspeed = t.is_on("--deepspeed") && t.is_on("--deepspeed-activation-checkpointing");
  for (const char* key :
       {"--distribute-saved-activations", "--distribute-checkpointed-activations", "--partition-activations"}) {
    if (!t.is_on(key)) continue;
    if (s.tensor < 2)
      t.becomes(key, KeyStatus::inert, "one tensor rank has nothing to cut");
    else if (std::string_view(key) == "--partition-activations" && !deepspeed)
      t.becomes(key, KeyStatus::inert, "it goes with --deepspeed and --deepspeed-activation-checkpointing");
    else if (t.is_on("--sequence-parallel"))
      t.becomes(key, KeyStatus::inert, "--sequence-parallel cuts what is kept already");
    else if (length % s.tensor != 0 && !t.is_on("--variable-seq-lengths"))
      t.refuse(key, fmt::format("{} with --seq-length {}, --tensor-model-parallel-size {}", key, length, s.tensor),
               "what is kept is cut along the sequence, in equal parts", "change one of them, or leave it out");
    else
      t.set("parallel.sequence", true, key);
  }
}

void set_layout(Translation& t, const MegatronSizes& s, const Json& deepspeed) {
  t.set("parallel.tensor", s.tensor, "--tensor-model-parallel-size");
  t.set("parallel.pipeline", s.pipeline, "--pipeline-model-parallel-size");
  if (s.data > 0) t.set("parallel.data", s.data, "--tensor-model-parallel-size");
  if (t.is_on("--sequence-parallel")) {
    if (s.tensor > 1)
      t.set("parallel.sequence", true, "--sequence-parallel");
    else
      t.becomes("--sequence-parallel", KeyStatus::inert, "one tensor rank has nothing to cut");
  }
  cut_kept_activations(t, s);
  const bool stages = t.is_on("--deepspeed");
  double zero = t.is_on("--use-distributed-optimizer") ? 1 : 0;
  if (stages) {
    zero = t.number("--zero-stage");
    if (const auto part = deepspeed.find("zero_optimization"); part != deepspeed.end() && part->is_object())
      if (const auto stage = part->find("stage"); stage != part->end() && stage->is_number()) {
        if (t.has("--zero-stage") && stage->get<double>() != zero)
          t.refuse("--zero-stage",
                   fmt::format("--zero-stage is {}, the stage of --deepspeed_config {}", zero, stage->get<double>()),
                   "both say the same", "correct one of them");
        zero = stage->get<double>();
      }
    if (!t.has("--deepspeed_config"))
      t.refuse("--deepspeed", "--deepspeed without --deepspeed_config", "the file holds the settings", "give it");
  } else {
    for (const char* key : {"--zero-stage", "--deepspeed_config", "--deepspeed-activation-checkpointing"})
      if (t.has(key)) t.becomes(key, KeyStatus::inert, "--deepspeed is not given");
  }
  if (zero != std::floor(zero) || zero < 0 || zero > 3)
    t.refuse("--zero-stage", fmt::format("--zero-stage is {}", zero), "it is 0, 1, 2 or 3", "correct it");
  else
    t.set("parallel.zero", static_cast<int64_t>(zero), stages ? "--zero-stage" : "--use-distributed-optimizer");
  if (t.has("--num-layers-per-virtual-pipeline-stage") && s.pipeline > 0 &&
      t.whole("--num-layers-per-virtual-pipeline-stage") > 0)
    t.set("parallel.virtual", s.layers / s.pipeline / t.whole("--num-layers-per-virtual-pipeline-stage"),
          "--num-layers-per-virtual-pipeline-stage");
  if (t.has("--num-layer-list")) set_layers(t, s, "--num-layer-list");
  if (t.has("--manual-layers")) {
    if (t.is_on("--use-manual-layer-allocation"))
      set_layers(t, s, "--manual-layers");
    else
      t.becomes("--manual-layers", KeyStatus::inert, "--use-manual-layer-allocation is not given");
  }
  if (t.whole("--num-experts") > 0)
    t.set("parallel.expert", t.value("--expert-model-parallel-size"), "--expert-model-parallel-size");
  const auto only = [&](const char* key, bool fits, const char* reason, const char* rule, const char* fix = "leave it out") {
    if (!t.has(key)) return;
    if (fits)
      t.becomes(key, KeyStatus::inert, reason);
    else
      t.refuse(key, t.is_on(key) ? std::string(key) : fmt::format("{} {}", key, t.value(key).dump()), rule, fix);
  };
  only("--context-parallel-size", t.whole("--context-parallel-size") == 1, "1 is what runs",
       "sequences are not cut over ranks");
  only("--remote-device", t.text("--remote-device") == "none", "none is what runs", "weights stay in memory");
  only("--z-loss-weight", t.number("--z-loss-weight") == 0, "0 adds nothing to the loss",
       "the loss on the largest logit is not offered");
  only("--vocab-extra-ids", t.whole("--vocab-extra-ids") == 0, "0 adds no ids", "sentinel ids are rows that no model here has");
  only("--pre-tockens", t.whole("--pre-tockens") >= t.whole("--seq-length"), "no sequence is as long",
       "attention reaches back to the first token", "write --sliding-window");
  only("--next-tockens", t.whole("--next-tockens") >= 0, "later tokens are masked in any case",
       "a token sees itself and all before it");
  only("--enable-recompute-layers-per-pp-rank", t.whole("--num-layers-per-virtual-pipeline-stage") == 0,
       "stages have one part each, whose layers are counted in any case", "the layers of each virtual part are counted",
       "write the number of one part, and leave it out");
  only("--triangle-attn", true, "attention always leaves the masked half of the scores out", "");
}

// Returns the number of layers of each pipeline part, in order; empty if the flags contradict each other.
std::vector<int64_t> layers_of_parts(const Translation& t, const MegatronSizes& s) {
  const char* list = t.has("--num-layer-list")                  ? "--num-layer-list"
                     : t.is_on("--use-manual-layer-allocation") ? "--manual-layers"
                                                                : "";
  std::vector<int64_t> layers;
  if (*list)
    for (const std::string& word : split(t.text(list), ',')) layers.push_back(resolve_scalar(word).integer);
  if (!layers.empty()) return layers;
  const int64_t virtual_layers = t.whole("--num-layers-per-virtual-pipeline-stage");
  const int64_t each = virtual_layers > 0 ? virtual_layers : s.layers / s.pipeline;
  if (each > 0) layers.resize(static_cast<size_t>(s.layers / each), each);
  return layers;
}

// Sets full recomputation of some layers. block: the first layers of each part; custom: a number for each stage.
void set_recompute_layers(Translation& t, const MegatronSizes& s) {
  const std::string policy = t.text("--checkpoint-policy"), method = t.text("--recompute-method");
  const bool by_policy = t.has("--checkpoint-policy");
  const std::string kind = by_policy ? policy : method;
  const char* first = by_policy ? "--checkpoint_block_layer" : "--recompute-num-layers";
  const char* key = kind == "custom" ? "--recomputation-layer-num" : first;
  if (kind == "block" || kind == "custom") {
    const Json& each = t.value("--recomputation-layer-num");
    std::vector<int64_t> again = layers_of_parts(t, s);
    bool all = true;
    for (size_t part = 0; part < again.size(); ++part) {
      const size_t stage = part % static_cast<size_t>(s.pipeline);
      int64_t count = t.whole(first);
      if (kind == "custom") count = stage < each.size() && each[stage].is_number_integer() ? each[stage].get<int64_t>() : 0;
      all = all && count >= again[part];
      again[part] = std::min(count, again[part]);
    }
    if (!all) t.set("train.recompute_layers", again, key);
    t.becomes(by_policy ? "--checkpoint-policy" : "--recompute-method", KeyStatus::used, "train.recompute_layers");
    t.becomes(key, KeyStatus::used, "train.recompute_layers");
  } else {
    key = "";
  }
  const auto idle = [&](const char* flag, const std::string& reason) {
    if (t.has(flag) && flag != std::string(key)) t.becomes(flag, KeyStatus::inert, reason);
  };
  const char* whole = "the inputs of all layers are kept, not of each so many, and the numbers are the same";
  for (const char* flag : {"--checkpoint_block_layer", "--recompute-num-layers", "--recomputation-layer-num"})
    idle(flag, kind.empty() || kind == "uniform" ? whole : fmt::format("{} has no use for it", kind));
  if (by_policy)
    idle("--recompute-method", "--checkpoint-policy says what is recomputed");
  else if (kind != "block" && kind != "custom")
    idle("--recompute-method", whole);
}

void set_recompute(Translation& t, const MegatronSizes& s) {
  const int64_t room = t.whole("--auto-recompute-device-size");
  if (t.is_on("--checkpoint-activations")) t.set("train.recompute", "full", "--checkpoint-activations");
  if (t.has("--checkpoint-policy")) t.set("train.recompute", "full", "--checkpoint-policy");
  if (t.is_on("--recompute-activations") || t.text("--recompute-granularity") == "selective")
    t.set("train.recompute", "cheap", t.has("--recompute-granularity") ? "--recompute-granularity" : "--recompute-activations");
  if (t.text("--recompute-granularity") == "full") t.set("train.recompute", "full", "--recompute-granularity");
  const bool full =
      t.is_on("--checkpoint-activations") || t.has("--checkpoint-policy") || t.text("--recompute-granularity") == "full";
  if (room > 0 && !t.is_on("--checkpoint-activations")) {
    t.set("train.recompute", "auto", "--auto-recompute-device-size");
    t.set("train.memory_mb", room, "--auto-recompute-device-size");
  } else if (t.has("--auto-recompute-device-size")) {
    t.becomes("--auto-recompute-device-size", KeyStatus::inert, "a size of 0 or less switches it off");
  }
  const bool by_room = room > 0 && !t.is_on("--checkpoint-activations");
  if (full && !by_room) return set_recompute_layers(t, s);
  for (const char* key : {"--checkpoint-policy", "--checkpoint_block_layer", "--recompute-method", "--recompute-num-layers",
                          "--recomputation-layer-num"})
    if (t.has(key))
      t.becomes(key, KeyStatus::inert,
                by_room ? "--auto-recompute-device-size chooses what is recomputed" : "no full recompute is asked for");
}

const char* tokenizer_flag(const Translation& t) {
  return t.has("--tokenizer-model")          ? "--tokenizer-model"
         : t.has("--tokenizer-name-or-path") ? "--tokenizer-name-or-path"
                                             : "--vocab-file";
}

void set_tokenizer(Translation& t) {
  const std::string kind = t.text("--tokenizer-type");
  if (kind.starts_with("BertWordPiece"))
    return t.refuse("--tokenizer-type", "--tokenizer-type " + kind, "this program trains models of the next token",
                    "use the tokenizer of such a model");
  if (kind == "NullTokenizer") return t.agrees("--tokenizer-type", "token files need no tokenizer");
  if (const std::string path = megatron_tokenizer(t); !path.empty()) t.set("model.tokenizer", path, tokenizer_flag(t));
}

// Returns the JSON of --deepspeed_config, a file or written by the script; an empty object without the flag.
Json deepspeed_settings(Translation& t, const MegatronJob& job) {
  if (!t.is_on("--deepspeed") || !t.has("--deepspeed_config")) return Json::object();
  const std::string path = t.text("--deepspeed_config");
  const auto own = job.written.find(path);
  try {
    Json settings = own != job.written.end() ? parse_json(own->second, path) : read_json(path);
    if (settings.is_object()) return settings;
    t.refuse("--deepspeed_config", path, "it holds an object", "correct the file");
  } catch (const UserError& e) {
    t.refuse("--deepspeed_config", fmt::format("--deepspeed_config {}", path), e.what(), "correct the file");
  }
  return Json::object();
}

}  // namespace

std::string megatron_tokenizer(const Translation& t) {
  const std::string flag = tokenizer_flag(t), path = t.text(flag);
  return flag == "--vocab-file" && !path.empty() ? fs::path(path).parent_path().string() : path;
}

void set_megatron_run(Translation& t, const MegatronSizes& s, const MegatronJob& job, MegatronAge age) {
  const Json deepspeed = deepspeed_settings(t, job);
  set_steps(t, s);
  set_optimizer(t);
  set_precision(t, deepspeed);
  set_layout(t, s, deepspeed);
  set_recompute(t, s);
  set_megatron_data(t, s, job, age);
  set_tokenizer(t);
  set_megatron_outputs(t);
  if (!set_megatron_load(t, job)) set_megatron_model(t, s, job, age);
  if (t.whole("--num-experts") > 0) {
    const std::string balance = t.text("--moe-router-load-balancing-type");
    const bool balanced =
        t.number("--moe-aux-loss-coeff") > 0 && balance != "none" && balance != "None" && balance != "softmax_topk";
    t.set("moe.load_balance", !balanced ? "none" : t.is_on("--seq-aux") ? "seq_aux" : "aux", "--moe-aux-loss-coeff");
    if (balanced) t.set("moe.aux_loss", t.value("--moe-aux-loss-coeff"), "--moe-aux-loss-coeff");
    if (t.has("--moe-train-capacity-factor")) {
      t.set("moe.capacity_factor", t.value("--moe-train-capacity-factor"), "--moe-train-capacity-factor");
      t.set("moe.drop", "position", "--moe-train-capacity-factor");
    }
    if (t.has("--moe-expert-capacity-factor")) {
      t.set("moe.capacity_factor", t.value("--moe-expert-capacity-factor"), "--moe-expert-capacity-factor");
      t.set("moe.drop", t.value("--moe-token-drop-policy"), "--moe-token-drop-policy");
      if (t.is_on("--moe-pad-expert-input-to-capacity"))
        t.set("moe.pad_to_capacity", true, "--moe-pad-expert-input-to-capacity");
    } else {
      for (const char* key : {"--moe-token-drop-policy", "--moe-pad-expert-input-to-capacity"})
        if (t.has(key)) t.becomes(key, KeyStatus::inert, "--moe-expert-capacity-factor is not given");
    }
    if (t.has("--moe-z-loss-coeff")) t.set("moe.z_loss", t.value("--moe-z-loss-coeff"), "--moe-z-loss-coeff");
  } else {
    for (const char* key : {"--moe-router-topk", "--moe-aux-loss-coeff", "--moe-z-loss-coeff", "--moe-train-capacity-factor",
                            "--expert-interval", "--expert-model-parallel-size", "--moe-router-load-balancing-type",
                            "--moe-expert-capacity-factor", "--moe-token-drop-policy", "--moe-pad-expert-input-to-capacity"})
      if (t.has(key)) t.becomes(key, KeyStatus::inert, "--num-experts is not given");
  }
  set_megatron_checkpoints(t, job);
  const auto resumes = [](const Setting& x) { return x.key == "checkpoint.resume"; };
  if (!t.is_on("--no-load-lr-state")) return;
  if (std::any_of(t.settings().begin(), t.settings().end(), resumes))
    t.refuse("--no-load-lr-state", "--no-load-lr-state with --load of an iteration",
             "the rate goes on from the iteration of the checkpoint", "leave it out, or begin the schedule anew by --finetune");
  else
    t.becomes("--no-load-lr-state", KeyStatus::inert, "--load is no iteration to go on from");
}

}  // namespace ravine
