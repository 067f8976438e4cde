// Translates the keys of log lines, event files and the end of a MindFormers job.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <regex>

#include "dialects/mindformers_run.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

// The outputs that a format of monitor_config names.
struct Format {
  bool log = false, events = false;
};

// Reads a format: log, tensorboard or both. Without a TensorBoard folder the log gets all, which a notice says.
Format format_of(Translation& t, const std::string& key) {
  const Json& given = t.value(key);
  if (given.is_null()) return {};
  Format out;
  for (const Json& word : given.is_array() ? given : Json::array({given})) {
    if (word != "log" && word != "tensorboard") {
      t.refuse(key, fmt::format("{} is {}", key, given.dump()), "a format is log or tensorboard, or a list of them",
               "write one of them");
      return {};
    }
    (word == "log" ? out.log : out.events) = true;
  }
  if (!out.events || !t.text("tensorboard.tensorboard_dir").empty()) return out;
  t.notice(fmt::format("{} is {}, and there is no tensorboard.tensorboard_dir: it goes to the log alone", key, given.dump()));
  return {.log = true};
}

// Sets the parameters that are monitored.
void choose_target(Translation& t) {
  const Json& target = t.value("monitor_config.target");
  if (!target.is_array() || target.empty()) return;
  std::string any;
  for (const Json& one : target) {
    any += (any.empty() ? "" : "|") + one.get<std::string>();
    try {
      const std::regex tried(one.get<std::string>());
    } catch (const std::regex_error& e) {
      t.refuse("monitor_config.target", fmt::format("monitor_config.target has {}: {}", one.dump(), e.what()),
               "it names parameters by regular expressions", "correct it");
    }
  }
  t.set("log.monitor_target", any, "monitor_config.target");
}

// Sets the quantities that log lines and event files get in addition.
void choose_monitor(Translation& t) {
  Json lines = Json::array(), events = Json::array();
  std::string from, from_events;
  if (const std::string drops = callback_of(t, "MoEDropRateCallback"); !drops.empty())
    lines.push_back("drop_rate"), from = drops + ".type";
  if (t.is_on("monitor_config.monitor_on")) {
    const auto add = [&](const std::string& key, const char* name, Format format) {
      if (format.log) lines.push_back(name), from = from.empty() ? key : from;
      if (format.events) events.push_back(name), from_events = from_events.empty() ? key : from_events;
    };
    for (const auto& [key, name] : {std::pair{"local_loss_format", "local_loss"},
                                    {"device_local_loss_format", "device_local_loss"},
                                    {"local_norm_format", "local_norm"},
                                    {"device_local_norm_format", "device_local_norm"},
                                    {"optimizer_state_format", "optimizer_state"},
                                    {"weight_state_format", "weight_state"}}) {
      const std::string at = std::string("monitor_config.") + key;
      add(at, name, format_of(t, at));
    }
    const std::string baseline = "monitor_config.throughput_baseline", interval = "monitor_config.step_interval";
    const bool board = !t.text("tensorboard.tensorboard_dir").empty();
    if (t.number(baseline) > 0) add(baseline, "throughput", {.log = true, .events = board});
    if (!lines.empty() || !events.empty()) {
      if (t.whole(interval) > 1) t.set("log.monitor_every", t.whole(interval), interval);
      if (t.number(baseline) > 0) t.set("log.baseline", t.number(baseline), baseline);
      choose_target(t);
    }
  }
  if (!lines.empty()) t.set("log.monitor", lines, from);
  if (!events.empty()) t.set("log.tensorboard_monitor", events, from_events);
}

// Sets the folder of event files, and the scalars that they leave out.
void choose_events(Translation& t) {
  const std::string dir = "tensorboard.tensorboard_dir", folder = t.text(dir);
  t.set("log.tensorboard", !folder.empty(), dir);
  if (folder.empty()) return;
  t.set("log.tensorboard_dir", folder, dir);
  Json omitted = Json::array();
  for (const MindFormersScalars& s : mindformers_scalars())
    if (!t.is_on(s.key))
      for (const std::string& tag : s.tags) omitted.push_back(tag);
  if (!omitted.empty()) t.set("log.tensorboard_omit", omitted, dir);
}

void choose_lines(Translation& t) {
  t.set("log.style", "mindformers", "run_mode");
  const Json& sink = t.value("runner_config.sink_mode");
  const bool sinks = (sink.is_boolean() && sink.get<bool>()) || (sink.is_number() && sink.get<double>() != 0);
  const int64_t size = t.whole("runner_config.sink_size");
  if (sinks)
    t.set("log.sink", std::max<int64_t>(1, size),
          gives(t, "runner_config.sink_mode") ? "runner_config.sink_mode" : "runner_config.sink_size");
  std::string monitor = callback_of(t, "MFLossMonitor");
  if (monitor.empty()) monitor = callback_of(t, "LossMonitor");
  if (!monitor.empty() && t.whole(monitor + ".per_print_times") > 1)
    t.set("log.every", t.whole(monitor + ".per_print_times"), monitor + ".per_print_times");
}

// Returns the file of an earlier stop under MindSpore, from which MindSpore would begin; "" if there is none.
std::string file_of_earlier_stop(const Translation& t, const std::string& at) {
  const std::string given = t.text(at + ".directory");
  const fs::path folder = given.empty() ? "." : given;
  std::error_code error;
  for (const auto& rank : fs::directory_iterator(folder, error)) {
    const fs::path file = rank.path() / (t.text(at + ".file_name") + "_train.ckpt");
    if (rank.path().filename().string().starts_with("rank_") && fs::is_regular_file(file, error) &&
        !fs::equivalent(file, t.text("load_checkpoint"), error))
      return file.lexically_normal().string();
  }
  return "";
}

// Translates MindSpore's callback that ends a run on a signal.
void choose_exit(Translation& t, bool runs) {
  const std::string at = callback_of(t, "OnRequestExit");
  if (at.empty()) return;
  const std::string save = at + ".save_ckpt", signal = at + ".sig";
  static constexpr std::array kOwn = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  if (const int64_t number = t.whole(signal); t.has(signal)) {
    if (number < 1)
      t.refuse(signal, fmt::format("{} is {}", signal, number), "it is the number of a signal", "write 12, which is SIGUSR2");
    else if (std::find(kOwn.begin(), kOwn.end(), number) != kOwn.end())
      t.becomes(signal, KeyStatus::inert, "a run ends in good order on this signal with it or without");
    else
      t.set("train.stop_signal", number, signal);
  }
  if (!t.is_on(save)) {
    if (callback_of(t, "CheckpointMonitor").empty())
      t.set("checkpoint.on_stop", false, save);
    else
      t.becomes(save, KeyStatus::inert, "CheckpointMonitor saves the last step of a run that is ended, in MindFormers too");
    for (const char* name : {".file_name", ".directory"})
      if (t.has(at + name)) t.becomes(at + name, KeyStatus::inert, "it counts with save_ckpt or save_mindir alone");
  } else if (const std::string file = runs ? file_of_earlier_stop(t, at) : ""; !file.empty()) {
    t.refuse({.key = save,
              .what = fmt::format("{} is there", file),
              .where = t.source(at + ".type"),
              .rule = "it is of an earlier stop, and OnRequestExit would begin from it",
              .fix = "set load_checkpoint to it, or move it away"});
  }
}

}  // namespace

const std::vector<MindFormersScalars>& mindformers_scalars() {
  static const std::vector<MindFormersScalars> all = {
      {"tensorboard.log_loss_scale_to_tensorboard", {"loss-scale"}},
      {"tensorboard.log_timers_to_tensorboard", {"iteration-time", "throughput", "B-samples-per-day"}},
      {"tensorboard.log_expert_load_to_tensorboard", {"expert_load"}},
  };
  return all;
}

void set_mindformers_outputs(Translation& t, bool runs) {
  choose_lines(t);
  choose_events(t);
  choose_monitor(t);
  choose_exit(t, runs);
}

}  // namespace ravine
