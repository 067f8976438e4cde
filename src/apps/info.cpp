#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "apps/command.h"
#include "apps/info_data.h"
#include "apps/info_kinds.h"
#include "apps/stored_tensors.h"
#include "base/counted.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/missing_path.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/indexed/indexed_file.h"
#include "files/compressed.h"
#include "files/folder_lock.h"
#include "files/folder_mark.h"
#include "files/safetensors.h"
#include "files/tensor_set.h"
#include "files/tokenizer_files.h"
#include "io/adapter_folder.h"
#include "io/checkpoint.h"
#include "io/convert/convert.h"
#include "text/tokenizer.h"
#include "train/run_folder.h"
#include "train/run_places.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

struct InfoFlags {
  std::string path;
  DataInfoOptions data;
  bool tensors = false, json = false;
  template <class V>
  void each(V&& v) {
    v("path", path,
      "any file or folder that ravine reads or writes: model, checkpoint, run, adapter, tokenizer, config, data, TensorBoard events, ...",
      positional() & required() & metavar("PATH") & reads());
    v("tokenizer", data.tokenizer, "decodes samples of data, with what is learned marked", metavar("DIR-or-FILE") & reads());
    v("template", data.chat_template, "chat template that conversations are shown by; empty: the tokenizer's own",
      metavar("NAME-or-FILE") & reads());
    v("samples", data.samples, "samples of data to show", between(0, 1e6));
    v("tensors", tensors, "list every tensor of a folder too");
    v("json", json, "one JSON object");
  }
};

// Each of these adds what it finds to `j`; text and --json show the same. weights: how the names of those tensors begin that
// are parameters, where there are others too.
void add_tensors(Json& j, const std::string& path, bool list, std::string_view weights = {}) {
  const StoredTensors stored(path);
  int64_t elements = 0, parameters = 0, bytes = 0;
  std::map<std::string, int64_t> types;
  Json rows = Json::array();
  Metadata metadata;
  for (const std::string& tensor : stored.names()) {
    const DType dtype = stored.dtype(tensor);
    const Shape& shape = stored.shape(tensor);
    elements += shape.count();
    if (tensor.starts_with(weights)) parameters += shape.count();
    bytes += shape.count() * size_of(dtype);
    types[std::string(name(dtype))] += shape.count();
    if (list)
      rows.push_back({{"name", tensor}, {"dtype", name(dtype)}, {"shape", std::vector<int64_t>(shape.begin(), shape.end())}});
  }
  if (stored.set()) {
    for (const auto& file : stored.set()->files())
      for (const auto& [key, value] : file->metadata()) metadata[key] = value;
    j["files"] = stored.set()->files().size();
  }
  j["tensors"] = stored.names().size();
  j["parameters"] = parameters;
  if (parameters != elements) j["elements"] = elements;
  j["bytes"] = bytes;
  j["elements_by_dtype"] = types;
  if (!metadata.empty()) j["metadata"] = metadata;
  if (list) j["tensor_list"] = std::move(rows);
}

bool has_tensors(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string();
        name.ends_with(".safetensors") || (name.starts_with("pytorch_model") && name.ends_with(".bin")))
      return true;
  return false;
}

// What a safetensors file is by its metadata, if this program made it as something else than weights; else "".
std::string kind_of_tensors(const Metadata& metadata) {
  auto is = [&](const char* key, std::string_view begin) {
    const auto it = metadata.find(key);
    return it != metadata.end() && std::string_view(it->second).starts_with(begin);
  };
  if (is("ravine", "trace")) return "trace (ravine trace)";
  return is("format", "ravine-tokens") || is("format", "ravine-chats") ? "tokens that a run keeps for its next start" : "";
}

// RUN/tokens: files by the checksums of what they were made of.
std::optional<Json> kept_tokens(const std::string& path) {
  std::error_code error;
  int64_t files = 0, bytes = 0;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string file = entry.path().string();
    if (!entry.is_regular_file(error) || !file.ends_with(".safetensors")) return {};
    try {
      if (!kind_of_tensors(SafetensorsReader(file).metadata()).starts_with("tokens")) return {};
    } catch (const UserError&) {
      return {};
    }
    ++files;
    bytes += static_cast<int64_t>(entry.file_size(error));
  }
  if (files == 0) return {};
  return Json{{"kind", "tokens that a run keeps for its next start"},
              {"path", path},
              {"files", files},
              {"bytes", bytes},
              {"to_use_it", "the run finds them by itself; without them it reads its texts again"}};
}

// A folder of .bin/.idx files.
std::optional<Json> folder_of_token_files(const std::string& path) {
  const std::vector<std::string> prefixes = indexed_prefixes_in(path);
  if (prefixes.empty()) return {};
  std::string list;
  for (const std::string& p : prefixes) list += (list.empty() ? "" : ", ") + p;
  return Json{{"kind", "folder of token files"},
              {"path", path},
              {"prefixes", prefixes},
              {"to_use_it", fmt::format("ravine info {}; data.train=[{}] in train", shell_word(prefixes.front()), list)}};
}

// A checkpoint of another program: what it is, what is in it, and the command that makes a model of it.
Json foreign_checkpoint(const std::string& path, const Recognised& r, bool list) {
  Json j{{"kind", r.what}, {"path", path}};
  j["to_use_it"] = fmt::format("ravine convert --input {} --output DIR --to hf", path);
  try {
    const ConvertReport report = convert_weights({.input = path, .from = r.layout, .dry_run = true}, [](int64_t, int64_t) {});
    j["tensors"] = report.rows.size();
    j["bytes"] = report.bytes;
    for (const std::string& note : report.notes) j["notes"].push_back(note);
    for (const ConvertRow& t : report.rows)
      if (list) j["tensor_list"].push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", parse_json(t.shape, path)}});
  } catch (const UserError& e) {
    j["problem"] = e.what();
  }
  return j;
}

// Names of the checkpoints in a folder, by step.
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

// The last line of metrics.jsonl; null if there is none.
Json last_metrics(const std::string& run) {
  const std::string file = run + "/metrics.jsonl";
  if (!fs::exists(file)) return {};
  LineReader lines(file, 1 << 20);
  std::string last;
  while (auto line = lines.next())
    if (!line->empty() && line->back() == '}') last = *line;  // a run that is writing may show half a line
  return last.empty() ? Json() : parse_json(last, file);
}

std::optional<std::string> who_runs(const std::string& folder) {
  try {
    return folder_holder(folder);
  } catch (const Error&) {  // something else has the name of the lock: whoever starts the run is told
    return {};
  }
}

Json run_folder(const std::string& path) {
  Json j{{"kind", "run"}, {"path", path}};
  const std::vector<std::string> checkpoints = checkpoint_names(path + "/checkpoints");
  const std::string word = shell_word(path), model = path + "/model";
  std::vector<std::string> use;
  if (const Json last = last_metrics(path); !last.is_null()) {
    j["last_step"] = last;
    use.push_back("ravine plot " + word);
  }
  j["checkpoints"] = checkpoints;
  if (const auto latest = latest_step(path + "/checkpoints")) j["latest"] = checkpoint_name(*latest);
  const bool exported = fs::exists(model + "/config.json");
  j["final_model"] = exported;
  const std::string adapter = path + "/adapter";
  const bool adapted = !exported && fs::exists(adapter + "/adapter_config.json");
  bool lora = adapted;
  try {
    const Config config = load_config(path + "/config.yaml");
    lora = lora || config.lora.asked();
    if (lora) j["base_model"] = config.model.path;
    if (lora) j["adapter_rank"] = config.lora.rank;
  } catch (const UserError&) {  // `train` says what is wrong with it
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

Json checkpoints_folder(const std::string& path) {
  Json j{{"kind", "checkpoints of a run"}, {"path", path}, {"checkpoints", checkpoint_names(path)}};
  if (const auto latest = latest_step(path)) j["latest"] = checkpoint_name(*latest);
  const std::string newest = checkpoint_name(first_step_to_try(path).value());
  j["to_use_it"] = fmt::format(
      "ravine info {}; ravine convert --input {} --output DIR --to hf; a copy goes on from one of them by checkpoint.resume={}",
      shell_word(path + "/" + newest), shell_word(path), shell_word(path + "/" + newest));
  return j;
}

// The runs in a folder, and with `deeper` those in its folders.
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

Json folder_of_runs(const std::string& path, const std::vector<std::string>& runs) {
  Json j{{"kind", "folder of runs"}, {"path", path}};
  Json each = Json::object();
  std::string curves;
  for (const std::string& run : runs) {
    Json last;
    std::optional<int64_t> saved;
    try {
      saved = first_step_to_try(run + "/checkpoints");
      last = last_metrics(run);
    } catch (const UserError&) {  // `info` of that run says what is damaged
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

// "data 2 x tensor 2 x pipeline 2, ZeRO 1, sequence, layers 6 6, 4 micro batches each".
std::string layout_text(const Json& layout) {
  auto number = [&](const char* key, int64_t otherwise) {
    const auto it = layout.find(key);
    return it != layout.end() && it->is_number_integer() ? it->get<int64_t>() : otherwise;
  };
  std::string text;
  for (const char* axis : {"data", "tensor", "pipeline"})
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

Json checkpoint_folder(const std::string& path, bool list) {
  Json j{{"kind", "checkpoint"}, {"path", path}};
  const Json manifest = read_json(path + "/manifest.json", int64_t{1} << 30);
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

Json model_folder(const std::string& path, bool list) {
  Json j{{"kind", "model"}, {"path", path}};
  if (const auto r = recognise(path); r && r->layout == WeightLayout::hf) {
    j["weights"] = r->what;
    if (const auto mark = read_mark(path); mark && mark->kind == kModelFolder)
      j["made_by"] = "a run of ravine, which exported it";
    if (fs::exists(path + "/config.json"))
      j["to_use_it"] = fmt::format("model.path={} in train, --model in generate and trace, or ravine convert", path);
  }
  if (fs::exists(path + "/config.json")) j["config"] = read_json(path + "/config.json");
  if (has_tensors(path))
    add_tensors(j, path, list);
  else if (j.contains("config"))
    add_model_config(j, j["config"], path + "/config.json");
  if (has_tokenizer(path)) {
    try {
      add_tokenizer(j, path);
    } catch (const UserError& e) {
      j["tokenizer_error"] = e.what();
    }
  }
  return j;
}

// Files of tensors that are no parts of one model lie side by side: traces, batches, models of torch.save. Each is named;
// nothing says that they belong together.
std::optional<Json> files_side_by_side(const std::string& path) {
  std::vector<std::string> files;
  int64_t others = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "config.json" || name.ends_with(".index.json") || name.starts_with("model") ||
        name.starts_with("pytorch_model") || name.find("-of-") != std::string::npos)
      return {};
    if (name.ends_with(".safetensors"))
      files.push_back(name);
    else
      others += name[0] != '.';
  }
  if (files.empty()) return {};
  std::ranges::sort(files);
  Json each = Json::object();
  for (const std::string& name : files) {
    try {
      const StoredTensors stored(path + "/" + name);
      std::string tensors;
      constexpr size_t kShown = 4;
      for (size_t i = 0; i < std::min(kShown, stored.names().size()); ++i) tensors += (i ? ", " : ": ") + stored.names()[i];
      each[name] = counted(static_cast<int64_t>(stored.names().size()), "tensor") + tensors +
                   (stored.names().size() > kShown ? ", .." : "");
    } catch (const UserError& e) {
      each[name] = e.what();
    }
  }
  return Json{{"kind", "folder of safetensors files"},
              {"path", path},
              {"tensor_files", each},
              {"other_entries", others},
              {"to_use_it", "ravine info " + shell_word(path + "/" + files.front())}};
}

Json describe(const std::string& path, bool list, const DataInfoOptions& data) {
  const std::string file = fs::path(path).filename().string();
  if (!fs::is_directory(path)) {
    if (auto j = describe_file_kind(path)) return *j;
    if (auto j = describe_data(path, data)) return *j;
  } else if (auto j = find_adapter(path) ? describe_folder_kind(path) : std::nullopt) {
    return *j;
  }
  if (!fs::exists(path)) {
    if (const std::string near = near_indexed_prefix(path); !near.empty()) return *describe_data(near, data);
    throw UserError("no such file or folder", path, "it must exist", missing_path_advice(path));
  }
  if (fs::is_directory(path) || file.ends_with(".ckpt"))
    if (const auto r = recognise(path); r && r->layout != WeightLayout::hf && r->layout != WeightLayout::ravine)
      return foreign_checkpoint(path, *r, list);
  if (fs::is_directory(path)) {
    if (is_checkpoint(path)) return checkpoint_folder(path, list);
    if (fs::exists(path + "/config.yaml") || fs::is_directory(path + "/checkpoints")) return run_folder(path);
    if (holds_checkpoints(path)) return checkpoints_folder(path);
    if (const auto j = kept_tokens(path)) return *j;
    if (auto j = files_side_by_side(path)) return *j;
    if (fs::exists(path + "/config.json") || has_tensors(path)) return model_folder(path, list);
    if (is_prepared(path))
      return {{"kind", "folder of a run to come (ravine init)"},
              {"path", path},
              {"config", path + "/run.yaml"},
              {"to_use_it", fmt::format("ravine train --config {}", shell_word(path + "/run.yaml"))}};
    if (has_tokenizer(path)) {
      Json j{{"kind", "tokenizer"}, {"path", path}};
      add_tokenizer(j, path);
      return j;
    }
    if (auto j = describe_folder_kind(path)) return *j;
    if (const auto runs = runs_in(path, true); !runs.empty())
      return folder_of_runs(path, runs);  // before data: their logs are texts
    if (auto j = describe_data(path, data)) return *j;
    if (const auto j = folder_of_token_files(path)) return *j;
    unknown_kind(path, true);
  }
  if (file.ends_with(".safetensors") || file.ends_with(".bin") || file.ends_with(".pt") || file.ends_with(".pth")) {
    Json j{{"kind", file.ends_with(".safetensors") ? "safetensors" : "torch file"}, {"path", path}};
    add_tensors(j, path, true);
    const std::string made = file.ends_with(".safetensors") ? kind_of_tensors(SafetensorsReader(path).metadata()) : "";
    if (!made.empty()) j["kind"] = made;
    bool batch_file = false;
    if (file.ends_with(".safetensors"))
      if (const auto batches = describe_batches(path, data)) j.update(*batches), batch_file = batches->contains("rows");
    if (!made.empty() || batch_file) j["elements"] = j["parameters"], j.erase("parameters");
    return j;
  }
  if (file.starts_with("tokenizer.") || file.find(".model") != std::string::npos) {
    Json j{{"kind", "tokenizer"}, {"path", path}};
    add_tokenizer(j, path);
    return j;
  }
  if (file.ends_with(".json")) return describe_json_file(path);
  unknown_kind(path, false);
}

std::string shown(const std::string& key, const Json& value) {
  if (key == "bytes" && value.is_number()) return fmt::format("{} ({})", value.dump(), human_bytes(value.get<double>()));
  if (key == "parameters" && value.is_number()) return fmt::format("{} ({})", value.dump(), human_count(value.get<double>()));
  if (value.is_string()) return key == "to_use_it" ? escaped(value.get<std::string>()) : printable(value.get<std::string>());
  return escaped(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void print_text(const Json& j) {
  for (const auto& [key, value] : j.items()) {
    if (key == "tensor_list") {
      fmt::print("\n");
      for (const Json& t : value) {
        const std::string dtype = t["dtype"], name = t["name"];
        fmt::print("{:<5} {:<24} {}\n", escaped(dtype), escaped(t["shape"].dump()), printable(name));
      }
    } else if (key == "lengths") {
      print_lengths(value);
    } else if (key == "samples") {
      print_samples(value);
    } else if (key == "tags") {
      fmt::print("tags:\n");
      for (const auto& [tag, v] : value.items())
        fmt::print("  {:<26} steps {} to {} ({}), last {}\n", printable(tag), v["first_step"].dump(), v["last_step"].dump(),
                   counted(v["points"].get<int64_t>(), "point"),
                   v["last"].is_string() ? v["last"].get<std::string>() : v["last"].dump());
    } else if (value.is_object()) {
      fmt::print("{}:\n", key);
      for (const auto& [inner, v] : value.items()) fmt::print("  {:<26} {}\n", printable(inner), shown(inner, v));
    } else {
      fmt::print("{:<18} {}\n", key, shown(key, value));
    }
  }
}

int run_info(InfoFlags& flags, Config&) {
  while (flags.path.size() > 1 && flags.path.back() == '/') flags.path.pop_back();
  if (is_prepared(flags.path)) {
    try {
      flags.path = run_meant_by(flags.path);
    } catch (const UserError&) {  // nothing has run yet, or run.yaml is damaged: what it is can be told all the same
    }
  }
  const Json j = describe(flags.path, flags.tensors, flags.data);
  if (flags.json)
    fmt::print("{}\n", j.dump(-1, ' ', ::isatty(STDOUT_FILENO) == 1, Json::error_handler_t::replace));
  else
    print_text(j);
  return 0;
}

}  // namespace

Command info_command() {
  return command<InfoFlags>({.name = "info",
                             .summary = "describe a model, checkpoint, run, tokenizer, data or safetensors file",
                             .example = "ravine info runs/demo/model --tensors",
                             .sections = {},
                             .alone = true},
                            "Machine", run_info);
}

}  // namespace ravine
