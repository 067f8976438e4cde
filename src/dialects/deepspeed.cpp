// Translates the keys of a DeepSpeed config into options.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "config/option.h"
#include "config/yaml_json.h"
#include "dialects/trainer.h"

namespace ravine {
namespace {

using Kind = YamlNode::Kind;

class DeepSpeedLeads {
 public:
  DeepSpeedLeads(const DeepSpeedConfig& c, const TrainerArguments& args, TrainerOutcome& out) : c_(c), args_(args), out_(out) {}

  void all() {
    batches();
    optimizer();
    scheduler();
    precision();
    zero();
    offload();
    aio();
    rest();
    for (const DeepSpeedGiven& g : c_.keys) line(g);
  }

 private:
  // Marks a key as used for `option`, and sets the option to `value`. Null: the option is set elsewhere.
  void used(const DeepSpeedGiven* g, const std::string& option, Json value = nullptr) {
    if (!g || g->left_to_default) return;
    if (!value.is_null()) out_.set(option, std::move(value), g->written);
    fates_[g->written] = {KeyStatus::used, option, nullptr};
  }
  void used(std::string_view key, const std::string& option) {
    const DeepSpeedGiven* g = c_.find(key);
    if (g && g->value->kind != Kind::null) used(g, option, json_of(*g->value));
  }
  void inert(std::string_view key, const std::string& reason) {
    if (const DeepSpeedGiven* g = c_.find(key)) fates_[g->written] = {KeyStatus::inert, reason, nullptr};
  }
  void refuse(const DeepSpeedGiven& g, const std::string& why) {
    out_.refusals.push_back(key_refusal(g.written, g.source, why));
  }
  // Refuses a switch that is off: DeepSpeed's default is on, and Ravine has no other behaviour.
  void stays_on(std::string_view key, const std::string& why) {
    const YamlNode* v = c_.value(key);
    if (v && !v->boolean) refuse(*c_.find(key), why);
  }

  // The keys of batches equal the flags, since fill_auto() refuses others. So the flags set the sizes.
  void batches() {
    for (const char* key : {"train_batch_size", "gradient_accumulation_steps"})
      if (const DeepSpeedGiven* g = c_.find(key)) used(g, "train.global_batch");
    used(c_.find("train_micro_batch_size_per_gpu"), "train.micro_batch");
    used("gradient_clipping", "optimizer.clip_norm");
    stays_on("managed_gradient_accumulation", "an update comes behind all micro batches of its step; remove it");
  }

  // Returns the class of optimizer.type or scheduler.type. An unknown name is refused and returns null.
  const DeepSpeedClass* chosen(const std::string& section, std::span<const DeepSpeedClass> classes, bool any_case) {
    const DeepSpeedGiven* type = c_.find(section + ".type");
    if (!type || type->value->kind != Kind::text) {
      out_.refusals.push_back(
          key_refusal(section, "--deepspeed", fmt::format("it has no type; write \"type\": \"{}\"", classes.front().name)));
      return nullptr;
    }
    std::vector<std::string> names;
    for (const DeepSpeedClass& k : classes) {
      if (type->value->text == k.name || (any_case && same_word(type->value->text, k.name))) return &k;
      names.emplace_back(k.name);
    }
    refuse(*type, fmt::format("\"{}\" is no {} of DeepSpeed that is known here; {}", type->value->text.substr(0, 80), section,
                              did_you_mean(type->value->text, names, "use one of " + joined(names))));
    return nullptr;
  }

  static std::string joined(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
    return out;
  }

  // Translates the params of a section by its class. An option without a param gets its value in `settings`.
  void params(const std::string& section, const DeepSpeedClass& k) {
    std::set<std::string> set;
    std::vector<std::string> names;
    for (const DeepSpeedParam& p : k.params) names.emplace_back(p.key);
    const std::string prefix = section + ".params.";
    for (const DeepSpeedGiven& g : c_.keys) {
      if (!g.key.starts_with(prefix)) continue;
      const std::string name = g.key.substr(prefix.size());
      const auto p = std::find_if(k.params.begin(), k.params.end(), [&](const DeepSpeedParam& x) { return x.key == name; });
      if (p == k.params.end()) {
        refuse(g, name == "max_grad_norm" ? "max_grad_norm is no parameter of an optimizer; use gradient_clipping"
                                          : fmt::format("{} has no parameter of this name; {}", k.name,
                                                        did_you_mean(name, names, "it has " + joined(names))));
      } else if (p->option.empty()) {
        if (p->must_be_default && g.value->kind != Kind::null && json_of(*g.value).dump() != p->fallback)
          refuse(g, fmt::format("it is {}: {}", written_value(*g.value), p->reason));
        fates_[g.written] = {KeyStatus::inert, std::string(p->reason), nullptr};
      } else {
        param(g, p->option);
        set.insert(p->option);
      }
    }
    const std::string of = section == "scheduler" ? "schedule." : "optimizer.";
    for (const auto& [option, value] : k.settings)
      if (!set.contains(of + std::string(option)))
        out_.set(of + std::string(option), parse_json(value, "defaults"), section + ".type");
  }

  void param(const DeepSpeedGiven& g, const std::string& option) {
    const YamlNode& v = *g.value;
    if (v.kind == Kind::null) return;
    const bool pair = option == "optimizer.betas", word = option == "schedule.warmup_type", on_off = v.kind == Kind::boolean;
    const auto is_number = [](const YamlNode& x) { return x.kind == Kind::integer || x.kind == Kind::real; };
    if (pair && !(v.kind == Kind::list && v.items.size() == 2 && is_number(*v.items[0]) && is_number(*v.items[1])))
      return refuse(g, fmt::format("it is {}, it must be two numbers", written_value(v)));
    if (word && !(v.kind == Kind::text && (v.text == "log" || v.text == "linear")))
      return refuse(g, fmt::format("it is {}, it must be log or linear", written_value(v)));
    if (v.kind == Kind::list && !pair)
      return refuse(g, "a list is for groups of parameters; a run has one rate, and optimizer.groups for others");
    const bool takes_flag = option.ends_with("nesterov") || option.ends_with("bias_correction") ||
                            option.ends_with("staircase") || option.ends_with("cycle_momentum") || option == "optimizer.type";
    if (!pair && !word && (takes_flag ? !on_off : !is_number(v)))
      return refuse(g, fmt::format("it is {}, it must be {}", written_value(v), takes_flag ? "true or false" : "a number"));
    const bool counts = option.find("step") != std::string::npos && option.find("rate") == std::string::npos;
    if (counts && std::floor(v.real) != v.real) return refuse(g, fmt::format("it is {}, it must be a whole number", v.text));
    if (option == "schedule.warmup_num_steps")  // DeepSpeed uses at least 2; Transformers 4.37 fills in 0
      return used(&g, option, std::max<int64_t>(1, static_cast<int64_t>(v.real)));
    if (option == "optimizer.type")  // adam_w_mode
      return used(&g, option, v.boolean ? "adamw" : "adam");
    used(&g, option, counts ? Json(static_cast<int64_t>(v.real)) : json_of(v));
  }

  void optimizer() {
    if (!c_.has_section("optimizer")) return;
    const DeepSpeedClass* k = chosen("optimizer", deepspeed_optimizers(), true);
    if (!k) return;
    const DeepSpeedGiven* type = c_.find("optimizer.type");
    used(type, "optimizer.type", std::string(k->ours));
    out_.set("optimizer.decay", "all", type->written);
    params("optimizer", *k);
    const bool zero = c_.stage() > 0;
    if (k->name == "Lamb" && c_.on("fp16.enabled") && c_.number("fp16.loss_scale", 0) > 0)
      refuse(*type, "Lamb asks for a loss scale that moves; set fp16.loss_scale to 0");
    if (zero && k->zero_promised) return promised(*k);
    if (zero && k->one_bit)
      refuse(*type, fmt::format("{} is not compatible with ZeRO; set zero_optimization.stage to 0", k->name));
    if (zero && !k->zero_tested && !c_.on("zero_allow_untested_optimizer"))
      refuse(*type, fmt::format("DeepSpeed has not tested {} with ZeRO; add \"zero_allow_untested_optimizer\": true", k->name));
    if (zero && !k->zero_tested && c_.on("zero_allow_untested_optimizer"))
      used(c_.find("zero_allow_untested_optimizer"), "optimizer.type");
  }

  // Accepts a class under ZeRO that DeepSpeed documents as tested with ZeRO, although its code refuses it.
  void promised(const DeepSpeedClass& k) {
    one_bit_ = k.one_bit;
    if (!one_bit_ && c_.on("zero_allow_untested_optimizer")) return;
    out_.notices.push_back(fmt::format(
        "{} under ZeRO {}: DeepSpeed's documentation calls it tested, its code refuses it; it is trained, with the numbers of a run without ZeRO{}",
        k.name, c_.stage(),
        one_bit_ ? ". Its data ranks send moments in place of gradients, so each keeps all of them: nothing is divided" : ""));
  }

  void scheduler() {
    if (!c_.has_section("scheduler")) return;
    const DeepSpeedClass* k = chosen("scheduler", deepspeed_schedulers(), false);
    if (!k) return;
    used(c_.find("scheduler.type"), "schedule.type", std::string(k->ours));
    params("scheduler", *k);
  }

  void precision() {
    const DeepSpeedGiven *fp16 = c_.find("fp16.enabled"), *bf16 = c_.find("bf16.enabled");
    const bool half = c_.on("fp16.enabled"), brain = c_.on("bf16.enabled");
    if (half && brain)
      refuse(*bf16, fmt::format("{} and fp16.enabled are both true; a run has one arithmetic, turn one of fp16 and bf16 off",
                                bf16->written));
    const bool half_flag = !c_.has_section("fp16") && args_.on("fp16"),
               brain_flag = !c_.has_section("bf16") && args_.on("bf16");
    if (brain && half_flag) refuse(*bf16, "bf16 is on, and --fp16 is given; remove one of them");
    if (half && brain_flag) refuse(*fp16, "fp16 is on, and --bf16 is given; remove one of them");
    const std::string type = half || half_flag ? "f16" : brain || brain_flag ? "bf16" : "f32";
    out_.set("precision.compute", type,
             half         ? fp16->written
             : brain      ? bf16->written
             : half_flag  ? "--fp16"
             : brain_flag ? "--bf16"
                          : "--deepspeed");
    used(fp16, "precision.compute");
    used(bf16, "precision.compute");
    constexpr std::string_view kChecks = "bf16.check_grad_overflow";
    if (const DeepSpeedGiven* checks = c_.find(kChecks);
        checks && c_.on(kChecks) && brain && (c_.stage() == 1 || c_.stage() == 2))
      out_.set("health.skip_norm", 1e12, checks->written), used(checks, "health.skip_norm");
    else if (checks)
      inert(kChecks, c_.on(kChecks) ? "it counts with bf16 at ZeRO stages 1 and 2 alone"
                                    : "a step whose gradients are not finite ends the run");
    scale(half);
    const std::string stored = c_.text("data_types.param_dtype", "");
    const std::string expected = type == "f16" ? "fp16" : type == "bf16" ? "bf16" : "fp32";
    if (!stored.empty() && stored != expected)
      refuse(*c_.find("data_types.param_dtype"),
             fmt::format("it is {}, and the arithmetic is {}; write {}, or remove it", stored, type, expected));
    const std::string accumulated = c_.text("data_types.grad_accum_dtype", "");
    const bool compute = (accumulated == "fp16" && type == "f16") || (accumulated == "bf16" && type == "bf16");
    if (const DeepSpeedGiven* g = c_.find("data_types.grad_accum_dtype"); g && !accumulated.empty()) {
      if (!compute && accumulated != "fp32")
        refuse(*g, fmt::format("gradients are f32, or of the type of the arithmetic, which is {}; write fp32", type));
      used(g, "precision.gradients", compute ? "compute" : "f32");
    }
  }

  void scale(bool half) {
    const std::pair<std::string_view, std::string> keys[] = {
        {"fp16.loss_scale", "precision.loss_scale"},
        {"fp16.initial_scale_power", "precision.scale_initial"},
        {"fp16.loss_scale_window", "precision.scale_window"},
        {"fp16.hysteresis", "precision.scale_hysteresis"},
        {"fp16.consecutive_hysteresis", "precision.scale_consecutive_hysteresis"},
        {"fp16.min_loss_scale", "precision.scale_min"}};
    for (const auto& [key, option] : keys) {
      const DeepSpeedGiven* g = c_.find(key);
      if (!g || g->left_to_default) continue;
      if (!half)
        inert(key, "fp16 is off: no loss is scaled");
      else if (key == "fp16.initial_scale_power")
        used(g, option, std::ldexp(1.0, static_cast<int>(g->value->real)));
      else
        used(key, option);
    }
    if (half && !c_.find("fp16.loss_scale")) out_.set("precision.loss_scale", 0, "fp16.enabled");
  }

  void zero() {
    const int64_t stage = c_.stage();
    out_.set("parallel.zero", one_bit_ ? 0 : stage, "--deepspeed");
    if (one_bit_ && stage > 0) {
      for (const char* key : {"zero_optimization.stage", "zero_optimization"})
        inert(key, "data ranks of this optimizer send moments in place of gradients, so each keeps all: parallel.zero is 0");
    } else {
      used("zero_optimization.stage", "parallel.zero");
      used(c_.find("zero_optimization"), "parallel.zero");
    }
    constexpr std::string_view kStays = "zero_optimization.stage3_param_persistence_threshold";
    if (const DeepSpeedGiven* g = c_.find(kStays); g && !g->left_to_default) {
      if (stage == 3 && !one_bit_)
        used(g, "parallel.zero_threshold", static_cast<int64_t>(g->value->real));
      else
        inert(kStays, "weights are divided at stage 3 only");
    }
    stays_on("zero_optimization.load_from_fp32_weights",
             "a run that goes on takes the f32 weights of its checkpoint; remove it");
    const bool scatters =
        stage >= 2 && (!c_.value("zero_optimization.reduce_scatter") || c_.on("zero_optimization.reduce_scatter"));
    for (const char* key : {"prescale_gradients", "gradient_predivide_factor"}) {
      const DeepSpeedGiven* g = c_.find(key);
      if (g && scatters && !g->left_to_default &&
          (g->value->boolean || (g->value->kind != Kind::boolean && g->value->real != 1)))
        refuse(*g,
               fmt::format("{} needs reduce_scatter: false at stage {}; remove it, sums in f32 do not need it", key, stage));
    }
    if (const DeepSpeedGiven* g = c_.find("zero_optimization.allgather_bucket_size");
        g && !g->left_to_default && std::fmod(std::floor(g->value->real), 2) != 0)
      refuse(*g, fmt::format("allgather_bucket_size is {}; it must be even", g->value->text));
    file_form(one_bit_ ? 0 : stage);
    const bool half_files = stage == 3 && (c_.on("fp16.enabled") || c_.on("bf16.enabled"));
    for (const char* key : {"zero_optimization.stage3_gather_16bit_weights_on_model_save",
                            "zero_optimization.stage3_gather_fp16_weights_on_model_save"}) {
      const DeepSpeedGiven* g = c_.find(key);
      if (!g || g->left_to_default) continue;
      if (g->value->boolean && half_files)
        used(g, "checkpoint.model_dtype", c_.on("fp16.enabled") ? "f16" : "bf16");
      else
        inert(key, "the model is written whole at every stage, in checkpoint.model_dtype");
    }
  }

  void offload() {
    constexpr std::string_view kZero = "zero_optimization.";
    const int64_t stage = c_.stage();
    std::string path;
    const std::tuple<std::string, std::string, std::vector<std::string>> kinds[] = {
        {"offload_optimizer", "offload.optimizer", {"cpu_offload"}},
        {"offload_param", "offload.params", {"cpu_offload_param", "cpu_offload_params"}}};
    bool pin = false, pin_said = false;
    double buffers = 0;
    for (const auto& [section, option, old_names] : kinds) {
      const std::string prefix = std::string(kZero) + section + ".";
      const bool is_param = section == "offload_param";
      std::string device = c_.text(prefix + "device", "none"), at = prefix + "device";
      for (const std::string& old : old_names)
        if (c_.on(std::string(kZero) + old)) device = "cpu", at = std::string(kZero) + old;
      for (const std::string& old : old_names) inert(std::string(kZero) + old, fmt::format("{} is off", section));
      const DeepSpeedGiven* where = c_.find(at);
      if (is_param && stage < 3 && c_.has_section(std::string(kZero) + section)) {
        for (const DeepSpeedGiven& g : c_.keys)
          if (g.key.starts_with(prefix))
            inert(g.key, fmt::format("weights are divided at stage 3 only, and the stage is {}", stage));
        continue;
      }
      if (!where) continue;
      if (stage == 0 && device != "none")
        refuse(*where, "what ZeRO divides is offloaded: set zero_optimization.stage to 1, 2 or 3");
      if (!is_param && device == "nvme" && stage < 3) {
        refuse(
            *where,
            fmt::format(
                "offload_optimizer goes to nvme at stage 3 only (DeepSpeed would take it for cpu), and the stage is {}; set stage 3, or device cpu",
                stage));
        continue;
      }
      used(where, option, device == "nvme" ? "disk" : device);
      const DeepSpeedGiven* disk = c_.find(prefix + "nvme_path");
      if (device == "nvme" && !(disk && disk->value->kind == Kind::text))
        refuse(*where, "nvme_path is missing; name a folder on the disk");
      else if (device == "nvme" && !path.empty() && path != disk->value->text)
        refuse(*disk, fmt::format("both sections lie in one folder, and the other's is {}", path));
      else if (device == "nvme")
        used(disk, "offload.path", path = disk->value->text);
      else
        inert(prefix + "nvme_path", "the device is no disk");
      for (const char* key : {"buffer_count", "pin_memory"}) inert(prefix + key, "nothing is moved: the device is none");
      if (device == "none") continue;
      if (const DeepSpeedGiven* g = c_.find(prefix + "buffer_count"); g && !g->left_to_default && device == "nvme")
        buffers = std::max(buffers, g->value->real), used(g, "offload.buffers");
      else
        inert(prefix + "buffer_count", "buffers are for disks");
      if (const DeepSpeedGiven* g = c_.find(prefix + "pin_memory"); g && !g->left_to_default)
        pin |= g->value->boolean, pin_said = true, used(g, "offload.pin");
      if (const DeepSpeedGiven* g = c_.find(prefix + "ratio"); g && !g->left_to_default) {
        if (stage != 3 && g->value->real < 1) refuse(*g, "a ratio below 1 is for stage 3");
        inert(g->key, "all of the state lies where the device says");
      }
    }
    if (const DeepSpeedGiven* g = c_.find("zero_optimization.cpu_offload_use_pin_memory"); g && !g->left_to_default)
      pin |= g->value->boolean, pin_said = true, used(g, "offload.pin");
    if (pin_said) out_.set("offload.pin", pin, "--deepspeed");
    if (buffers > 0) out_.set("offload.buffers", static_cast<int64_t>(buffers), "--deepspeed");
  }

  void aio() {
    if (const DeepSpeedGiven* g = c_.find("aio.block_size"); g && !g->left_to_default) {
      const auto bytes = static_cast<int64_t>(g->value->real);
      if (bytes % 1024 != 0) refuse(*g, "a block is a multiple of 1024 bytes");
      used(g, "offload.block_kb", bytes / 1024);
    }
    used("aio.queue_depth", "offload.queue_depth");
    if (c_.find("aio.intra_op_parallelism"))
      inert("aio.thread_count", "intra_op_parallelism, its new name, is given too and counts");
    else
      used("aio.thread_count", "offload.threads");
    used("aio.intra_op_parallelism", "offload.threads");
  }

  void rest() {
    used("tensorboard.enabled", "log.tensorboard");
    out_.outputs.event_files = monitor("tensorboard");
    out_.outputs.csv = monitor("csv_monitor");
    out_.outputs.wall_clock = c_.on("wall_clock_breakdown");
    flops_profiler();
    if (c_.on("comms_logger.enabled") && c_.on("comms_logger.verbose"))
      refuse(*c_.find("comms_logger.verbose"),
             "there are no lines of single sums, metrics.jsonl counts what ranks send; set it to false");
  }

  // Sets the parameter order in checkpoint files; DeepSpeed reads the files by the same keys.
  void file_form(int64_t stage) {
    const char *order = "zero_optimization.round_robin_gradients", *groups = "zero_optimization.sub_group_size";
    out_.outputs.round_robin = c_.on(order);
    if (stage != 1 && stage != 2) inert(order, "it counts at stages 1 and 2 alone");
    if (const YamlNode* v = c_.value(groups); v && v->kind != Kind::text)
      out_.outputs.sub_group = static_cast<int64_t>(v->real);
    if (stage != 3) inert(groups, "it counts at stage 3 alone");
  }

  void flops_profiler() {
    const std::string section = "flops_profiler.";
    FlopsProfilerKeys& to = out_.outputs.flops;
    to.enabled = c_.on(section + "enabled");
    const auto given = [&](const char* key) -> const YamlNode* {
      const DeepSpeedGiven* g = c_.find(section + key);
      if (g && !to.enabled) inert(g->key, "the profiler is off");
      return g && !g->left_to_default ? g->value.get() : nullptr;
    };
    const auto whole = [&](const char* key, int64_t& number) {
      if (const YamlNode* v = given(key)) number = static_cast<int64_t>(v->real);
    };
    whole("profile_step", to.profile_step);
    whole("module_depth", to.module_depth);
    whole("top_modules", to.top_modules);
    if (const YamlNode* v = given("detailed")) to.detailed = v->boolean;
    if (const YamlNode* v = given("recompute_fwd_factor")) to.recompute_fwd_factor = v->real;
    if (const YamlNode* v = given("output_file"); v && v->kind == Kind::text) to.output_file = v->text;
  }

  // Returns the folder of a monitor's files, joined as in DeepSpeed; "" if the monitor is off.
  std::string monitor(const std::string& section) {
    const std::string folder = section + ".output_path", job = section + ".job_name";
    if (!c_.on(section + ".enabled")) {
      inert(folder, "the monitor is off"), inert(job, "the monitor is off");
      return "";
    }
    const auto said = [&](const std::string& key, const char* otherwise) {
      const YamlNode* v = c_.value(key);
      return v && v->kind == Kind::text ? v->text : std::string(otherwise);
    };
    const std::string before = said(folder, ""), name = said(job, "DeepSpeedJobName");
    return before.empty() ? name : before.ends_with('/') ? before + name : before + "/" + name;
  }

  void line(const DeepSpeedGiven& g) {
    const auto found = fates_.find(g.written);
    const DeepSpeedKey* k = find_deepspeed_key(g.key);
    TrainerOutcome::Fate fate{k && k->fate == DeepSpeedFate::files ? KeyStatus::used : KeyStatus::inert,
                              k ? std::string(k->says) : "its section has no type that is known", nullptr};
    if (found != fates_.end()) fate = found->second;
    fate.value = json_of(*g.value);
    if (k && k->type == DeepSpeedValue::size && g.value->kind == Kind::real) fate.value = std::floor(g.value->real);
    if (g.left_to_default) fate = {KeyStatus::standard, "nothing fills it: the default counts", nullptr};
    out_.fates[g.written] = std::move(fate);
  }

  const DeepSpeedConfig& c_;
  const TrainerArguments& args_;
  TrainerOutcome& out_;
  bool one_bit_ = false;                               // a 1-bit optimizer under ZeRO: nothing is sharded
  std::map<std::string, TrainerOutcome::Fate> fates_;  // by the user's spelling of the key
};

}  // namespace

void lead_deepspeed(const DeepSpeedConfig& config, const TrainerArguments& args, TrainerOutcome& out) {
  DeepSpeedLeads(config, args, out).all();
}

}  // namespace ravine
