#include "runs/run_paths.h"

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "files/fd.h"
#include "files/folder_lock.h"
#include "files/same_path.h"
#include "io/adapter_folder.h"
#include "io/checkpoint.h"
#include "io/convert/deepspeed_state.h"
#include "io/convert/megatron_place.h"
#include "io/convert/mindformers_state.h"
#include "io/convert/trainer_state.h"
#include "io/open_weights.h"
#include "io/run_files.h"
#include "runs/run_folder.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& folder, const char* name) {
  std::error_code error;
  return fs::exists(folder / name, error);
}

// True if a prepared folder has a run, and its run.yaml names one elsewhere: the folder was copied from there, or
// moved.
bool is_copy(const fs::path& prepared, const std::string& output_path) {
  std::error_code error;
  return is_run((prepared / "run").string()) && !lies_within(output_path, prepared.string()) &&
         (!fs::exists(output_path, error) || is_prepared(folder_of(output_path)));
}

bool holds_adapter(const fs::path& run) { return holds(run / "adapter", "adapter_config.json"); }

// Returns the options in the run's config.yaml; the defaults if it cannot be read.
Config options_of_run(const fs::path& run) {
  try {
    return read_run_config((run / "config.yaml").string());
  } catch (const Error&) {  // `train` reports the mistake
    return {};
  }
}

bool saved_any(const fs::path& run) {
  return first_step_to_try((run / "checkpoints").string()).has_value() || !checkpoints_of_other_layout(run.string()).empty();
}

std::string model_of_checkpoint(const fs::path& run) {
  return fmt::format("make a model of its newest checkpoint by `ravine convert --input {} --output DIR --to hf`",
                     shell_word(run.string()));
}

// Throws a UserError if the run is still running: its model or adapter is written at its end.
void refuse_while_it_runs(const fs::path& run, const std::string& where) {
  std::optional<std::string> holder;
  try {
    holder = folder_holder(run.string());
  } catch (const Error&) {  // the folder has no lock of a run
  }
  if (!holder) return;
  const bool checkpoint = saved_any(run) && !options_of_run(run).lora.enabled();
  throw UserError(
      "a run that is still running", where,
      fmt::format("{} writes its {} at the end{}", *holder, exported_name(options_of_run(run)),
                  saved_any(run) ? "" : ", and has saved no checkpoint yet"),
      fmt::format("wait for its end (`ravine info {0}` says how far it is), or end it early and saved by `ravine stop {0}`{1}",
                  shell_word(run.string()), checkpoint ? ", or " + model_of_checkpoint(run) : ""));
}

// Returns "go on with it by `COMMAND`".
std::string goes_on(const fs::path& run) { return fmt::format("go on with it by `{}`", command_that_goes_on_in(run.string())); }

}  // namespace

std::vector<std::string> checkpoints_of_other_layout(const std::string& run) {
  std::vector<std::string> out;
  const CheckpointLayout layout = options_of_run(run).checkpoint.layout;
  if (layout == CheckpointLayout::mindformers) return mindformers_checkpoints((fs::path(run) / "checkpoint").string());
  if (layout == CheckpointLayout::deepspeed)
    for (const auto& [step, path] : deepspeed_checkpoints(run)) out.push_back(path);
  if (layout == CheckpointLayout::trainer)
    for (const auto& [step, path] : trainer_checkpoints(run)) out.push_back(path);
  if (layout == CheckpointLayout::megatron) return megatron_checkpoints(run);
  return out;
}

ResolvedWeights resolve_weights(const std::string& path, const std::string& model_config) {
  ResolvedWeights resolved{path, model_config};
  if (!is_run(path)) return resolved;
  const std::vector<std::string> all = checkpoints_of_other_layout(path);
  if (all.empty()) return resolved;
  const Config c = options_of_run(path);
  resolved.path = all.back();
  std::error_code error;
  const std::string own = c.model.path.empty() ? c.model.config : c.model.path + "/config.json";
  if (model_config.empty() && c.checkpoint.layout == CheckpointLayout::mindformers &&
      (is_inline(own) || fs::is_regular_file(own, error)))
    resolved.model_config = own;
  return resolved;
}

bool is_prepared(const std::string& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && fs::is_regular_file(fs::path(folder) / "run.yaml", error) && !is_run(folder) &&
         !holds(folder, "config.json");
}

std::string resolve_run(const std::string& path) {
  if (!is_prepared(path)) return path;
  const std::string config = (fs::path(path) / "run.yaml").lexically_normal().string();
  const fs::path moved = (fs::path(path) / "run").lexically_normal();
  if (std::string output_path = read_run_config(config).train.output; is_run(output_path) && !is_copy(path, output_path))
    return output_path;
  if (is_run(moved.string())) return moved.string();
  throw UserError("nothing has run here yet", path, "`ravine init` has prepared this folder; its run has not started",
                  fmt::format("start it by `ravine train --config {}`", shell_word(config)));
}

std::string resolve_model(const std::string& path, const std::string& key) {
  const fs::path run = resolve_run(path);
  if (!is_run(run.string()) || holds(run, "config.json")) return path;
  if (holds(run / "model", "config.json")) return (run / "model").lexically_normal().string();
  const std::string where = fmt::format("{}={}", key, path);
  if (const Config c = options_of_run(run); c.lora.enabled() || holds_adapter(run)) {
    refuse_while_it_runs(run, where);
    if (!holds_adapter(run))
      throw UserError("a run without a model", where, "it trains an adapter, which is written when the run has come to its end",
                      goes_on(run));
    throw UserError("a run of an adapter, not of a model", where, "it has trained an adapter for its base model",
                    fmt::format("make one model of both: `{} merge-lora --model {} --adapter {} --output DIR`", program_word(),
                                shell_word(c.model.path), shell_word((run / "adapter").lexically_normal().string())));
  }
  refuse_while_it_runs(run, where);
  if (options_of_run(run).checkpoint.layout == CheckpointLayout::mindformers)
    throw UserError("a run without a model", where, "its weights lie in its checkpoints, which are MindFormers' own",
                    saved_any(run) ? model_of_checkpoint(run) : goes_on(run));
  throw UserError("a run without a model", where, "it is written when the run has come to its end",
                  goes_on(run) + (saved_any(run) ? ", or " + model_of_checkpoint(run) : ""));
}

std::string resolve_adapter(const std::string& path, const std::string& key) {
  const fs::path run = resolve_run(path);
  if (!is_run(run.string())) return check_adapter_folder(path, key), path;
  if (holds_adapter(run)) return (run / "adapter").lexically_normal().string();
  const Config c = options_of_run(run);
  const bool model = holds(run / "model", "config.json");
  if (c.lora.enabled() && !c.lora.merge) refuse_while_it_runs(run, fmt::format("{}={}", key, path));
  throw UserError(
      "a run without an adapter", fmt::format("{}={}", key, path),
      !c.lora.enabled()       ? "it trains all weights of its model"
      : c.lora.merge && model ? "its adapter is merged into its model"
                              : "it is written when the run has come to its end",
      model ? fmt::format("name its model, {}", shell_word((run / "model").lexically_normal().string())) : goes_on(run));
}

ResolvedPaths resolve_model_and_adapter(const std::string& model, const std::string& adapter) {
  const fs::path run = resolve_run(model);
  const bool of_run = is_run(run.string()) && !holds(run, "config.json");
  ResolvedPaths resolved{model, adapter.empty() ? "" : resolve_adapter(adapter, "--adapter")};
  if (of_run && holds_adapter(run) && (!adapter.empty() || !holds(run / "model", "config.json"))) {
    if (const std::string base = options_of_run(run).model.path; !base.empty()) {
      resolved.model = base;
      if (adapter.empty()) resolved.adapter = (run / "adapter").lexically_normal().string();
    }
  }
  resolved.model = resolve_model(resolved.model, "--model");
  return resolved;
}

std::string older_than_its_run(const std::string& made) {
  fs::path folder = fs::path(made).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const fs::path run = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  const bool adapter = folder.filename() == "adapter";
  if ((folder.filename() != "model" && !adapter) || !is_run(run.string())) return "";
  if (const Config c = options_of_run(run); c.lora.enabled() && exported_name(c) != folder.filename()) {
    const fs::path makes = run / exported_name(c);
    return fmt::format(
        "{} is of an earlier end of its run, which now makes {} (lora.merge={}): {}", folder.string(), makes.string(),
        c.lora.merge,
        holds(makes, adapter ? "config.json" : "adapter_config.json") ? "name " + shell_word(makes.string()) : goes_on(run));
  }
  std::string of;
  try {
    of = read_exported(run.string()).checkpoint;
  } catch (const Error&) {  // `train` reports the mistake
  }
  const auto step = checkpoint_step(of), newest = first_step_to_try((run / "checkpoints").string());
  if (!step || !newest || *newest <= *step) return "";
  return fmt::format("{} is of step {}, its run has come to step {}: {} to its end, which writes it anew{}", folder.string(),
                     *step, *newest, goes_on(run),
                     adapter ? ""
                             : fmt::format("; a model of step {}: `ravine convert --input {} --output DIR --to hf`", *newest,
                                           shell_word(run.string())));
}

std::string trained_on_other_base(const std::string& adapter, const std::string& model) {
  const auto found = find_adapter(adapter);
  std::error_code error;
  if (!found || !fs::is_directory(model, error)) return "";
  try {
    const Json config = adapter_config(*found);
    const auto base = config.find("base_model_name_or_path");
    if (base == config.end() || !base->is_string()) return "";
    const std::string named = base->get<std::string>();
    if (!fs::is_directory(named, error) || same_path(named, model)) return "";
    const std::string theirs = weights_checksum(named);
    if (theirs.empty() || theirs == weights_checksum(model)) return "";
    return fmt::format("{} was trained beside {}, and {} has other weights: what it adds was not learned for them", adapter,
                       named, model);
  } catch (const UserError&) {  // the reader of these folders reports the mistake
    return "";
  }
}

void refuse_run_without_weights(const std::string& path, const std::string& key) {
  const std::string owner = is_run(path) ? path : run_that_owns(path);
  if (owner.empty()) return;
  const fs::path run = owner;
  const std::string where = fmt::format("{}={}", key, path);
  const Config c = options_of_run(run);
  const bool whole = path == owner, checkpoint = whole || lies_within(path, (run / "checkpoints").string());
  const std::string made = (run / exported_name(c)).lexically_normal().string();
  const bool trained_adapter = c.lora.enabled() && !c.lora.merge && holds_adapter(run);
  if (whole && !trained_adapter && !saved_any(run)) {
    refuse_while_it_runs(run, where);
    throw UserError("a run without a checkpoint", where, "weights are read from the newest checkpoint",
                    holds(made, "config.json") ? "name its model, " + shell_word(made) : goes_on(run));
  }
  if (!checkpoint || !c.lora.enabled()) return;
  if (c.lora.merge && holds(made, "config.json"))
    throw UserError("a run of an adapter, not of a model", where, "its checkpoints hold the adapter alone",
                    fmt::format("its model, with the adapter merged into it, is {}", shell_word(made)));
  refuse_while_it_runs(run, where);
  throw UserError(
      "a run of an adapter, not of a model", where, "it trains the adapter alone",
      holds_adapter(run)
          ? fmt::format("make one model of it and its base: `ravine merge-lora --model {0} --adapter {0} --output DIR`",
                        shell_word(run.string()))
          : "let the run come to its end: " + goes_on(run));
}

std::string command_that_goes_on_in(const std::string& run) {
  const std::string file = (fs::path(run) / "config.yaml").string();
  std::string other;
  try {
    if (!same_path(read_run_config(file).train.output, run)) other = " train.output=" + shell_word(run);
  } catch (const Error&) {  // `train` reports the mistake
  }
  return fmt::format("ravine train --config {}{}", shell_word(file), other);
}

void refuse_run_of_other_layout(const Config& config) {
  const std::string& output = config.train.output;
  if (!is_run(output)) return;
  const CheckpointLayout was = options_of_run(output).checkpoint.layout, now = config.checkpoint.layout;
  if (was == now || !saved_any(output)) return;
  throw UserError(fmt::format("train.output has a run with checkpoint.layout={}, this run has {}", name(was), name(now)),
                  "train.output=" + output, "two runs in one folder would mix their metrics.jsonl and config.yaml",
                  "choose another train.output");
}

void refuse_config_of_other_run(const Config& config) {
  const auto source = config.sources.find("train.output");
  if (source == config.sources.end()) return;
  const std::string file = source->second.substr(0, source->second.rfind(':')), folder = folder_of(file),
                    name = fs::path(file).filename().string();
  const std::string& output_path = config.train.output;
  std::string own;
  if (name == "config.yaml" && is_run(folder)) own = folder;
  if (name == "run.yaml" && is_prepared(folder) && is_copy(folder, output_path)) own = folder + "/run";
  if (own.empty() || same_path(own, output_path)) return;
  throw UserError("train.output is not the folder of the run next to this file", file,
                  fmt::format("the run was copied or moved, and this file sets train.output={}", output_path),
                  fmt::format("choose one: train.output={} for the run here, train.output={} for the other run",
                              shell_word(own), shell_word(output_path)));
}

}  // namespace ravine
