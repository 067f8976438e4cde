#include "apps/info_runs.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "apps/info_tensors.h"
#include "base/json_fields.h"
#include "base/shell_word.h"
#include "files/compressed.h"
#include "files/folder_lock.h"
#include "files/tokenizer_files.h"
#include "io/checkpoint.h"
#include "io/run_files.h"
#include "runs/run_folder.h"
#include "runs/run_paths.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// Returns the names of the checkpoints in a folder, by step.
std::vector<std::string> checkpoint_names(const std::string& folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const auto step = checkpoint_step(entry.path().filename().string()); step && entry.is_directory())
      steps.push_back(*step);
  std::ranges::sort(steps);
  std::vector<std::string> names;
  for (int64_t step : steps) names.push_back(checkpoint_name(step));
  return names;
}

// Returns the last line of metrics.jsonl; null if there is none.
Json last_metrics(const std::string& run) {
  const std::string file = run + "/metrics.jsonl";
  if (!fs::exists(file)) return {};
  LineReader lines(file, kMetricsLine);
  std::string last;
  while (auto line = lines.next())
    if (!line->empty() && line->back() == '}') last = *line;  // a run may be writing its last line
  return last.empty() ? Json() : parse_json(last, file);
}

std::optional<std::string> who_runs(const std::string& folder) {
  try {
    return folder_holder(folder);
  } catch (const Error&) {  // another file has the name of the lock: the next start of the run reports it
    return {};
  }
}

// Returns the layout as text: "data 2 x tensor 2 x pipeline 2, ZeRO 1, sequence, layers 6 6, 4 micro batches each".
std::string layout_text(const Json& layout) {
  auto number = [&](const char* key, int64_t otherwise) {
    const auto it = layout.find(key);
    return it != layout.end() && it->is_number_integer() ? it->get<int64_t>() : otherwise;
  };
  std::string text;
  for (const char* axis : {"data", "tensor", "expert", "pipeline"})
    if (const int64_t n = number(axis, 1); n != 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis, n);
  if (text.empty()) text = "one rank";
  if (const int64_t n = number("virtual", 1); n > 1 && number("pipeline", 1) > 1) text += fmt::format(" of {} parts each", n);
  if (const int64_t n = number("zero", 0); n != 0) text += fmt::format(", ZeRO {}", n);
  if (layout.contains("sequence") && layout["sequence"] == Json(true)) text += ", sequence";
  if (const auto it = layout.find("stage_layers"); it != layout.end() && it->is_array() && it->size() > 1)
    text += fmt::format(", layers {}", it->dump());
  if (const int64_t n = number("micro_batches", 0); n > 0) text += fmt::format(", {} micro batch{} each", n, n > 1 ? "es" : "");
  return text;
}

void add_fingerprint(Json& j, const Json& data) {
  if (const auto tokenizer = data.find("tokenizer");
      tokenizer != data.end() && tokenizer->is_string() && *tokenizer != Json(""))
    j["tokenizer_checksum"] = *tokenizer;
  const auto sources = data.find("sources");
  if (sources == data.end() || !sources->is_array()) return;
  std::string text;
  for (const Json& s : *sources)
    if (s.is_object() && s.contains("path") && s["path"].is_string() && s.contains("checksum") && s["checksum"].is_string())
      text +=
          fmt::format("{}{} ({})", text.empty() ? "" : ", ", s["path"].get<std::string>(), s["checksum"].get<std::string>());
  j["data"] = text;
}

}  // namespace

Json describe_run(const std::string& path) {
  Json j{{"kind", "run"}, {"path", path}};
  std::vector<std::string> checkpoints = checkpoint_names(path + "/checkpoints");
  const std::vector<std::string> others = checkpoints_of_other_layout(path);
  if (!others.empty()) checkpoints.clear();
  for (const std::string& other : others) checkpoints.push_back(fs::path(other).lexically_relative(path).string());
  const std::string word = shell_word(path), model = path + "/model";
  std::vector<std::string> use;
  if (const Json last = last_metrics(path); !last.is_null()) {
    j["last_step"] = last;
    use.push_back("ravine plot " + word);
  }
  j["checkpoints"] = checkpoints;
  if (!others.empty())
    j["latest"] = checkpoints.back();
  else if (const auto latest = latest_step(path + "/checkpoints"))
    j["latest"] = checkpoint_name(*latest);
  const bool exported = fs::exists(model + "/config.json");
  j["final_model"] = exported;
  const std::string adapter = path + "/adapter";
  const bool adapted = !exported && fs::exists(adapter + "/adapter_config.json");
  bool lora = adapted;
  try {
    const Config config = read_run_config(path + "/config.yaml");
    lora = lora || config.lora.enabled();
    if (lora) j["base_model"] = config.model.path;
    if (lora) j["adapter_rank"] = config.lora.rank;
  } catch (const UserError&) {  // `train` reports the error
  }
  if (lora) j["final_adapter"] = adapted;
  if (const auto holder = who_runs(path)) {
    j["running"] = *holder;
    use.push_back("ravine stop " + word);
  } else if (fs::exists(path + "/config.yaml") && !checkpoints.empty()) {
    use.push_back(fmt::format("{} checkpoint.resume=auto (goes on, with a larger train.steps beyond its end)",
                              command_that_goes_on_in(path)));
  }
  if (exported)
    use.push_back(has_tokenizer(model) ? fmt::format("ravine generate --model {} --prompt TEXT", shell_word(model))
                                       : fmt::format("ravine info {}", shell_word(model)));
  else if (adapted)
    for (const char* command : {"generate --prompt TEXT", "merge-lora --output DIR"})
      use.push_back(fmt::format("ravine {} --model {} --adapter {}", command,
                                j.contains("base_model") ? shell_word(j["base_model"].get<std::string>()) : "BASE",
                                shell_word(adapter)));
  else if (!checkpoints.empty() && !lora)
    use.push_back(fmt::format("ravine convert --input {} --output DIR --to hf", word));
  if (!use.empty()) j["to_use_it"] = fmt::format("{}", fmt::join(use, "; "));
  return j;
}

Json describe_checkpoints(const std::string& path) {
  Json j{{"kind", "checkpoints of a run"}, {"path", path}, {"checkpoints", checkpoint_names(path)}};
  if (const auto latest = latest_step(path)) j["latest"] = checkpoint_name(*latest);
  const std::string newest = checkpoint_name(first_step_to_try(path).value());
  j["to_use_it"] = fmt::format(
      "ravine info {}; ravine convert --input {} --output DIR --to hf; a copy goes on from one of them by checkpoint.resume={}",
      shell_word(path + "/" + newest), shell_word(path), shell_word(path + "/" + newest));
  return j;
}

std::vector<std::string> runs_in(const std::string& folder, bool deeper) {
  std::vector<std::string> runs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_directory(error)) continue;
    const std::string path = entry.path().string();
    if (is_run(path))
      runs.push_back(path);
    else if (deeper)
      for (const std::string& run : runs_in(path, false)) runs.push_back(run);
  }
  std::ranges::sort(runs);
  return runs;
}

Json describe_runs(const std::string& path, const std::vector<std::string>& runs) {
  Json j{{"kind", "folder of runs"}, {"path", path}};
  Json each = Json::object();
  std::string curves;
  for (const std::string& run : runs) {
    Json last;
    std::optional<int64_t> saved;
    try {
      saved = first_step_to_try(run + "/checkpoints");
      last = last_metrics(run);
    } catch (const UserError&) {  // `info` of this run reports the damage
    }
    if (!last.is_null()) curves += " " + shell_word(run);
    each[fs::path(run).lexically_relative(path).string()] = fmt::format(
        "{}{}{}", last.is_object() && last.contains("step") ? fmt::format("step {}", last["step"].dump()) : "no step",
        saved ? fmt::format(", {}", checkpoint_name(*saved)) : "", fs::exists(run + "/model/config.json") ? ", model" : "");
  }
  j["runs"] = each;
  j["to_use_it"] = fmt::format("ravine info {}{}", shell_word(runs.front()), curves.empty() ? "" : "; ravine plot" + curves);
  return j;
}

Json describe_checkpoint(const std::string& path, bool list) {
  Json j{{"kind", "checkpoint"}, {"path", path}};
  const Json manifest = read_run_json(path + "/manifest.json", int64_t{1} << 30);
  Json scalars = Json::object();
  if (manifest.is_object())
    for (const auto& [key, value] : manifest.items())
      if (value.is_primitive()) append_field(scalars, key, value);
  if (const auto saved = manifest.find("scalars"); manifest.is_object() && saved != manifest.end() && saved->is_object()) {
    for (const char* key : {"tokens", "global_batch", "compute", "optimizer", "seed", "sum_leaves"})
      if (saved->contains(key) && (*saved)[key].is_primitive()) scalars[key] = (*saved)[key];
    if (const auto options = saved->find("options"); options != saved->end() && options->is_object())
      if (const auto products = options->find("precision.bf16_products"); products != options->end() && products->is_string())
        scalars["bf16_products"] = *products;
    if (const auto layout = saved->find("layout"); layout != saved->end() && layout->is_object())
      scalars["layout"] = layout_text(*layout);
    if (const auto data = saved->find("fingerprint"); data != saved->end() && data->is_object())
      add_fingerprint(scalars, *data);
  }
  j["manifest"] = scalars;
  add_tensors(j, path, list, "weights/");
  j["to_use_it"] =
      fmt::format("ravine convert --input {0} --output DIR --to hf; a copy of its run goes on from it by checkpoint.resume={0}",
                  shell_word(path));
  return j;
}

}  // namespace ravine
