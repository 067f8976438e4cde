// Megatron's flags for the output of a run and for its early end.
#include <fmt/format.h>

#include <filesystem>

#include "dialects/megatron_run.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

void set_ends(Translation& t) {
  for (const auto& [key, option] :
       {std::pair{"--exit-interval", "train.exit_every"}, {"--exit-duration-in-mins", "train.exit_minutes"}}) {
    if (!t.has(key)) continue;
    if (t.whole(key) > 0)
      t.set(option, t.whole(key), key);
    else
      t.becomes(key, KeyStatus::inert, "0 ends no run");
  }
}

void set_saves(Translation& t) {
  if (t.has("--save")) {
    t.set("train.output", t.value("--save"), "--save");
    t.set("checkpoint.every", t.value("--save-interval"), "--save-interval");
    t.set("checkpoint.keep", 0, "--save");
  } else {
    t.set("checkpoint.every", 0, "--save");
    if (t.has("--save-interval")) t.becomes("--save-interval", KeyStatus::inert, "--save is not given");
  }
  for (const char* key : {"--ckpt-format", "--use-dist-ckpt"}) {
    if (!t.has(key)) continue;
    const std::string form = t.text(key);  // "" of a switch
    if (!t.has("--save"))
      t.becomes(key, KeyStatus::inert, "--save is not given");
    else if (form == "torch")
      t.becomes(key, KeyStatus::inert, "torch is what is written: a folder for each rank");
    else
      t.refuse(key, form.empty() ? std::string(key) : fmt::format("{} {}", key, form),
               "checkpoints are written as a folder for each rank", "write --ckpt-format torch in its place");
  }
  if (t.is_on("--no-save-optim") && !t.has("--save")) t.becomes("--no-save-optim", KeyStatus::inert, "--save is not given");
}

// True if the folder is the default for event files: tensorboard in the output folder of the run.
bool is_own_board(const Translation& t, const std::string& folder) {
  fs::path given = fs::path(folder).lexically_normal();
  if (!given.has_filename()) given = given.parent_path();
  const fs::path own = fs::path(t.has("--save") ? t.text("--save") : TrainOptions().output) / "tensorboard";
  return given == own.lexically_normal();
}

// Sets the scalars that event files leave out. Each switch adds scalars to Megatron's files; two of them remove some.
void set_scalars(Translation& t) {
  const bool board = t.has("--tensorboard-dir");
  Json omitted = Json::array();
  for (const ScalarSwitch& s : scalar_switches()) {
    if (t.has(s.flag) && !board) t.becomes(s.flag, KeyStatus::inert, "--tensorboard-dir is not given");
    if (t.is_on(s.flag) == s.removes)
      for (const std::string& tag : s.tags) omitted.push_back(tag);
  }
  if (!board || omitted.empty()) return;
  t.set("log.tensorboard_omit", omitted, "--tensorboard-dir");
}

void set_log(Translation& t) {
  t.set("log.every", t.value("--log-interval"), "--log-interval");
  t.set("log.style", "megatron", "--log-interval");
  t.set("log.tensorboard", t.has("--tensorboard-dir"), "--tensorboard-dir");
  if (t.has("--tensorboard-dir")) {
    if (!is_own_board(t, t.text("--tensorboard-dir")))
      t.set("log.tensorboard_dir", t.value("--tensorboard-dir"), "--tensorboard-dir");
    const int64_t every = t.whole("--tensorboard-log-interval");
    if (every < 1)
      t.refuse("--tensorboard-log-interval", fmt::format("--tensorboard-log-interval is {}", every), "it is 1 or more",
               "correct it");
    else if (every != t.whole("--log-interval"))
      t.set("log.tensorboard_every", every, "--tensorboard-log-interval");
  } else if (t.has("--tensorboard-log-interval")) {
    t.becomes("--tensorboard-log-interval", KeyStatus::inert, "--tensorboard-dir is not given");
  }
  Json figures = Json::array();
  const char* last = nullptr;
  for (const auto& [key, figure] : {std::pair{"--log-params-norm", "weight_norm"},
                                    {"--log-num-zeros-in-grad", "gradient_zeros"},
                                    {"--log-throughput", "tflops"}})
    if (t.is_on(key)) figures.push_back(figure), last = key;
  if (last) t.set("log.figures", figures, last);
  const char* times = "--timing-log-level";
  if (t.whole(times) > 0)
    t.refuse(times, fmt::format("{} {}", times, t.whole(times)), "a run does not take the times of its parts",
             "leave it out; `ravine bench train --profile` takes them");
  else if (t.has(times))
    t.becomes(times, KeyStatus::inert, "0 prints no times of parts");
}

void set_adapters(Translation& t) {
  if (t.has("--lora-target-modules")) {
    t.set("lora.targets", t.value("--lora-target-modules"), "--lora-target-modules");
    t.set("lora.rank", t.value("--lora-r"), "--lora-r");
    t.set("lora.alpha", t.value("--lora-alpha"), "--lora-alpha");
    if (t.has("--lora-modules-to-save")) t.set("lora.save", t.value("--lora-modules-to-save"), "--lora-modules-to-save");
  } else {
    for (const char* key : {"--lora-r", "--lora-alpha", "--lora-modules-to-save"})
      if (t.has(key)) t.becomes(key, KeyStatus::inert, "--lora-target-modules names no modules");
  }
  if (t.has("--lora-load")) t.set("lora.path", t.value("--lora-load"), "--lora-load");
}

}  // namespace

const std::vector<ScalarSwitch>& scalar_switches() {
  static const std::vector<ScalarSwitch> all = {
      {"--log-timers-to-tensorboard", {"iteration-time", "throughput"}},
      {"--log-batch-size-to-tensorboard", {"batch-size"}},
      {"--no-log-learnig-rate-to-tensorboard", {"learning-rate"}, true},  // spelled so there
      {"--no-log-loss-scale-to-tensorboard", {"loss-scale"}, true},
      {"--log-validation-ppl-to-tensorboard", {"lm-loss-validation-ppl"}},
      {"--log-memory-to-tensorboard", {"mem-allocated-bytes"}},
      {"--log-world-size-to-tensorboard", {"world-size"}},
  };
  return all;
}

void set_megatron_outputs(Translation& t) {
  set_ends(t);
  set_saves(t);
  set_log(t);
  set_scalars(t);
  set_adapters(t);
}

}  // namespace ravine
