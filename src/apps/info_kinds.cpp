#include "apps/info_kinds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/cut_text.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "config/load.h"
#include "files/compressed.h"
#include "files/fd.h"
#include "files/folder_lock.h"
#include "files/folder_mark.h"
#include "files/npy.h"
#include "files/read_head.h"
#include "files/tensor_set.h"
#include "files/tensorboard_reader.h"
#include "io/adapter_folder.h"
#include "io/adapter_weights.h"
#include "io/checkpoint.h"
#include "io/convert/trainer_state.h"
#include "io/open_weights.h"
#include "model/decoder.h"
#include "probe/run_metrics.h"
#include "runs/run_paths.h"
#include "text/tokenizers/open_tokenizer.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr size_t kBeginning = 4096;   // bytes of a text file that are read to find its kind
constexpr size_t kValueShown = 2000;  // longest value of a file that is shown, in bytes

std::string name_of(const std::string& path) { return fs::path(path).filename().string(); }

Json adapter_folder(const std::string& path, const AdapterFolder& adapter) {
  const Json config = adapter_config(adapter);
  auto value = [&](const char* key) { return config.contains(key) ? config[key] : Json(); };
  const Json type = value("peft_type");
  Json j{{"kind", type.is_string() ? fmt::format("PEFT adapter ({})", type.get<std::string>()) : "PEFT adapter"},
         {"path", path}};
  for (const auto& [key, field] : {std::pair{"base_model", "base_model_name_or_path"},
                                   {"rank", "r"},
                                   {"alpha", "lora_alpha"},
                                   {"targets", "target_modules"},
                                   {"dropout", "lora_dropout"},
                                   {"rslora", "use_rslora"},
                                   {"rank_pattern", "rank_pattern"},
                                   {"alpha_pattern", "alpha_pattern"},
                                   {"saved_modules", "modules_to_save"}})
    if (const Json v = value(field); !v.is_null() && v != Json::object()) j[key] = v;
  if (const auto targets = j.find("targets");
      targets != j.end() && targets->is_array()) {  // the last parts of the names are enough
    std::set<std::string> ends;
    for (const Json& t : *targets)
      if (t.is_string()) ends.insert(t.get<std::string>().substr(t.get<std::string>().rfind('.') + 1));
    if (ends.size() < targets->size()) j["target_modules"] = targets->size(), j["targets"] = ends;
  }
  for (Json& shown : j)
    if (std::string text = shown.is_string() ? shown.get<std::string>() : shown.dump(); text.size() > kValueShown)
      shown = shown_text(text, kValueShown);
  if (adapter.config_file.empty()) j["problem"] = "adapter_config.json is missing";
  if (adapter.weights_file.empty()) {
    j["problem"] = "neither adapter_model.safetensors nor adapter_model.bin is there";
    return j;
  }
  j["file"] = name_of(adapter.weights_file);
  const auto file = open_tensor_file(adapter.weights_file);
  int64_t elements = 0, bytes = 0;
  std::map<std::string, int64_t> types;
  for (const TensorInfo& t : file->tensors()) {
    elements += t.shape.count();
    bytes += t.shape.count() * size_of(t.dtype);
    types[std::string(name(t.dtype))] += t.shape.count();
  }
  j["tensors"] = file->tensors().size();
  j["parameters"] = elements;
  j["bytes"] = bytes;
  j["elements_by_dtype"] = types;
  try {
    check_adapter_folder(path, "adapter");
    settings_of(config, adapter.config_file);
  } catch (const UserError& e) {
    j["problem"] = e.what();
    return j;
  }
  const Json base = value("base_model_name_or_path");
  j["to_use_it"] =
      fmt::format("{} generate --model {} --adapter {} --prompt TEXT", program_word(),
                  base.is_string() && base != Json("") ? shell_word(base.get<std::string>()) : "BASE", shell_word(path));
  return j;
}

Json events(const std::string& path, const std::vector<std::string>& files) {
  const EventData data = read_events(files);
  Json j{{"kind", "TensorBoard events"}, {"path", path}, {"files", files.size()}, {"events", data.events}};
  Json tags = Json::object();
  for (const auto& [tag, points] : data.scalars) {
    const auto [first, last] =
        std::minmax_element(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const double value = points.back().second;
    append_field(tags, tag,
                 {{"points", points.size()},
                  {"first_step", first->first},
                  {"last_step", last->first},
                  {"last", std::isfinite(value) ? Json(static_cast<float>(value)) : Json(fmt::format("{}", value))}});
  }
  j["tags"] = tags;
  if (!data.others.empty()) j["other_entries"] = data.others;
  if (data.cut) j["note"] = "the last event is not whole: a run is writing it, or was killed";
  return j;
}

// Returns the options that differ from their defaults; for a run, the most important ones first.
Json options(const std::string& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  const bool of_run =
      name_of(path) == "config.yaml" && (fs::exists(folder / "metrics.jsonl") || fs::is_directory(folder / "checkpoints"));
  Json j{{"kind", of_run ? "options of a run" : "options"}, {"path", path}};
  if (of_run) j["run"] = folder.string();
  Config config, defaults;
  try {
    config = load_config(path);
  } catch (const UserError& e) {
    j["problem"] = e.what();
    return j;
  }
  constexpr std::array kFirst = {"model.path",        "model.config",         "model.tokenizer", "data.train",
                                 "data.valid",        "data.sequence_length", "train.steps",     "train.global_batch",
                                 "train.micro_batch", "train.output",         "optimizer.type",  "optimizer.lr",
                                 "schedule.type",     "precision.compute"};
  Json first = Json::object(), others = Json::object();
  auto all = sections_of(config), plain = sections_of(defaults);
  for (size_t s = 0; s < all.size(); ++s)
    for (size_t i = 0; i < all[s].options.size(); ++i) {
      const Option &o = all[s].options[i], &d = plain[s].options[i];
      const bool main = std::find(kFirst.begin(), kFirst.end(), o.name()) != kFirst.end();
      if (main && o.yaml() != "\"\"" && o.yaml() != "[]")
        first[o.name()] = o.yaml();
      else if (!main && o.yaml() != d.yaml())
        others[o.name()] = o.yaml();
    }
  j["main"] = first;
  if (!others.empty()) j["other_than_default"] = others;
  j["to_use_it"] = of_run ? command_that_goes_on_in(folder_of(path)) : fmt::format("ravine train --config {}", path);
  return j;
}

// True if the file begins with a line of metrics.jsonl; its name is not checked.
bool begins_with_metrics(const std::string& path) {
  std::string line = read_head(path, 1 << 16);
  line = line.substr(0, line.find('\n'));
  if (!line.starts_with("{\"step\":")) return false;
  try {
    const Json first = parse_json(line, path);
    return first.contains("loss") && first.contains("lr") && first["step"].is_number();
  } catch (const UserError&) {
    return false;
  }
}

Json metrics(const std::string& path) {
  const RunMetrics m = read_run_metrics(path);
  Json j{{"kind", "metrics of a run"},
         {"path", path},
         {"rows", m.step.size()},
         {"first_step", m.step.front()},
         {"last_step", m.step.back()}};
  Json last = Json::object();
  for (const auto& [key, points] : m.value) {
    const auto seen =
        std::find_if(points.rbegin(), points.rend(), [](const RunMetrics::Point& p) { return std::isfinite(p.value); });
    append_field(last, key, seen == points.rend() ? Json() : Json(seen->value));
  }
  j["last_values"] = last;
  j["to_use_it"] = fmt::format("ravine plot {}", path);
  return j;
}

Json timeline(const std::string& path, const Json& trace) {
  const Json& list = trace["traceEvents"];
  double begin = HUGE_VAL, end = -HUGE_VAL;
  std::map<std::string, int64_t> kinds;
  for (const Json& e : list) {
    if (!e.is_object()) continue;
    if (e.contains("name") && e["name"].is_string()) ++kinds[e["name"].get<std::string>()];
    if (!e.contains("ts") || !e["ts"].is_number()) continue;
    const double at = e["ts"].get<double>();
    begin = std::min(begin, at);
    end = std::max(end, at + (e.contains("dur") && e["dur"].is_number() ? e["dur"].get<double>() : 0));
  }
  Json j{{"kind", "timeline (trace events)"}, {"path", path}, {"events", list.size()}, {"names", kinds.size()}};
  if (end >= begin) j["milliseconds"] = (end - begin) / 1000;
  j["to_use_it"] = "open it in ui.perfetto.dev or chrome://tracing";
  return j;
}

Json scalars_of(const Json& object) {
  Json out = Json::object();
  for (const auto& [key, value] : object.items())
    if (value.is_primitive()) append_field(out, key, value);
  return out;
}

Json json_file(const std::string& path) {
  const std::string file = name_of(path);
  const Json content = read_json(path, int64_t{256} << 20);
  if (!content.is_object())
    return Json{{"kind", "JSON of no kind that is known here"}, {"path", path}, {"is", content.type_name()}};
  if (file == "adapter_config.json") {
    Json j{{"kind", "config of a PEFT adapter"}, {"path", path}, {"config", content}};
    return j;
  }
  if (content.contains("traceEvents") && content["traceEvents"].is_array()) return timeline(path, content);
  if (content.contains("weight_map")) {
    std::map<std::string, int64_t> files;
    for (const auto& [tensor, shard] : parse_weight_index(read_whole(path, int64_t{256} << 20), path)) ++files[shard];
    Json j{{"kind", "index of weights"}, {"path", path}, {"tensors", content["weight_map"].size()}, {"tensors_by_file", files}};
    if (content.contains("metadata")) j["metadata"] = content["metadata"];
    return j;
  }
  if (file == "tokenizer_config.json" || file == "special_tokens_map.json" || file == "added_tokens.json") {
    Json settings = scalars_of(content);
    const bool chat = content.contains("chat_template");
    settings.erase("chat_template");
    for (const auto& [key, value] :
         content.items())  // {"eos_token": {"content": "</s>", ..}}, {"additional_special_tokens": ["<|im_end|>"]}
      if (value.is_object() && value.contains("content"))
        append_field(settings, key, value["content"]);
      else if (value.is_array() && key.ends_with("_tokens"))
        append_field(settings, key, value);
    return Json{{"kind", "settings of a tokenizer"}, {"path", path}, {"chat_template", chat}, {"settings", settings}};
  }
  if (content.contains("format") && content.contains("tensors") && file == "manifest.json")
    return Json{{"kind", "manifest of a checkpoint"}, {"path", path}, {"manifest", scalars_of(content)}};
  if (file == "generation_config.json") return Json{{"kind", "defaults of generation"}, {"path", path}, {"config", content}};
  if (content.contains("model_type")) {
    Json j{{"kind", "config"}, {"path", path}, {"config", content}};
    add_model_config(j, content, path);
    return j;
  }
  std::vector<std::string> keys;
  for (const auto& [key, value] : content.items())
    if (keys.size() < 20) keys.push_back(key);
  return Json{{"kind", "JSON of no kind that is known here"}, {"path", path}, {"keys", keys}};
}

std::string between_tags(const std::string& text, const std::string& tag) {
  const size_t begin = text.find("<" + tag + ">"), end = text.find("</" + tag + ">");
  return begin == std::string::npos || end == std::string::npos
             ? ""
             : text.substr(begin + tag.size() + 2, end - begin - tag.size() - 2);
}

}  // namespace

void add_tokenizer(Json& j, const std::string& path) {
  const auto tokenizer = open_tokenizer(path);
  j["tokenizer"] = tokenizer->kind();
  j["vocabulary"] = tokenizer->size();
  const SpecialTokens& s = tokenizer->special();
  Json special = Json::object();
  for (const auto& [key, id] : {std::pair{"bos", s.bos}, {"eos", s.eos}, {"pad", s.pad}, {"unk", s.unk}})
    if (id) special[key] = *id;
  if (!special.empty())
    j["special_tokens"] = special;
  else if (name_of(path) == "tokenizer.json")
    j["special_tokens"] = "said by tokenizer_config.json beside it: ask about the folder";
  else
    j["special_tokens"] = "none";
}

void add_model_config(Json& j, const Json& config, const std::string& where) {
  try {
    const auto model = make_model(config, where);
    j["parameters"] = model->params().count();
    if (const int64_t active = model->params().active_count(); active < model->params().count())
      j["active_parameters"] = active;
    if (const DecoderSpec* spec = model->decoder()) {
      const CacheWidths row = cache_widths(spec->attention, 1);
      j["cache_numbers_per_token"] = model->facts().layers * (row.keys + row.values);
    }
  } catch (const UserError& e) {
    j["parameters_unknown"] = e.what();
  }
}

void add_trainer_run(Json& j, const std::string& path) {
  const Json state = trainer_state_of(path);
  for (const auto& [key, value] : state.items()) j[key] = value;
  j["to_go_on"] = fmt::format(
      "{} trainer --resume_from_checkpoint {}, with the flags of its run; natively checkpoint.layout=trainer "
      "checkpoint.resume={}",
      program_word(), shell_word(path), shell_word(path));
}

Json describe_json_file(const std::string& path) { return json_file(path); }

std::optional<Json> describe_folder_kind(const std::string& path) {
  if (const auto adapter = find_adapter(path)) {
    Json j = adapter_folder(path, *adapter);
    if (is_trainer_checkpoint(path))
      j["kind"] = "Trainer checkpoint of a " + j["kind"].get<std::string>(), add_trainer_run(j, path);
    return j;
  }
  if (const std::vector<std::string> files = event_files(path); !files.empty()) return events(path, files);
  if (const auto mark = read_mark(path); mark && mark->kind == kPreprocessFolder) {
    Json j{{"kind", "work folder of ravine preprocess"}, {"path", path}};
    if (const std::string state = path + "/state.json"; fs::exists(state))
      if (const Json s = read_json(state); s.is_object() && s.contains("records")) j["records"] = s["records"];
    if (const auto holder = folder_holder(path)) j["running"] = *holder;
    j["to_use_it"] = "where it has ended, the same ravine preprocess command goes on, and removes the folder at its end";
    return j;
  }
  return {};
}

std::optional<Json> describe_file_kind(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const std::string file = name_of(path);
  if (is_event_file(path)) return events(path, {path});
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return options(path);
  if (file.ends_with(".jsonl") && begins_with_metrics(path)) return metrics(path);
  if (file == "vocab.json" || file == "merges.txt" || file == "vocab.txt") {
    Json j{{"kind", "part of a tokenizer"}, {"path", path}};
    add_tokenizer(j, fs::absolute(path).parent_path().string());
    return j;
  }
  if (file.ends_with(".npy")) {
    const NpyArray array = read_npy_header(path);
    return Json{{"kind", "NumPy array"},
                {"path", path},
                {"dtype", name(array.dtype)},
                {"shape", std::vector<int64_t>(array.shape.begin(), array.shape.end())},
                {"bytes", array.shape.count() * size_of(array.dtype)}};
  }
  if (file.ends_with(".jinja"))
    return Json{{"kind", "chat template (Jinja)"},
                {"path", path},
                {"bytes", fs::file_size(path, error)},
                {"to_use_it", "data.chat_template in train, --template in generate --chat"}};
  if (file.ends_with(".svg") || file.ends_with(".html")) {
    const std::string text = read_head(path, kBeginning);
    Json j{{"kind", file.ends_with(".svg") ? "picture (SVG)" : "page (HTML)"},
           {"path", path},
           {"bytes", fs::file_size(path, error)}};
    if (const std::string title = between_tags(text, "title"); !title.empty()) j["title"] = title;
    j["to_use_it"] = "open it in a browser; `ravine plot` and `ravine plan --schedule` write such files";
    return j;
  }
  if (file == "exported" && fs::exists(fs::absolute(path).parent_path() / "config.yaml")) {
    const std::string run = fs::absolute(path).parent_path().string();
    return Json{
        {"kind", "note of a run about its model"},
        {"path", path},
        {"run", run},
        {"says", read_head(path, kBeginning)},
        {"to_use_it",
         fmt::format("the run knows by it whether its model is that of its last checkpoint; `ravine info {}` is about the run",
                     shell_word(run))}};
  }
  if (file == "log.txt" && fs::exists(fs::absolute(path).parent_path() / "config.yaml"))
    return Json{{"kind", "log of a run"},
                {"path", path},
                {"run", fs::absolute(path).parent_path().string()},
                {"bytes", fs::file_size(path, error)}};
  if (const fs::path folder = fs::absolute(path).parent_path(); file == "latest" && folder.filename() == "checkpoints") {
    const auto step = latest_step(folder.string());
    return Json{{"kind", "name of the newest checkpoint"},
                {"path", path},
                {"checkpoint", step ? Json((folder / checkpoint_name(*step)).string()) : Json()}};
  }
  if (file == kFolderMark) {
    const fs::path folder = fs::absolute(path).parent_path();
    const auto mark = read_mark(folder.string());
    if (!mark)
      throw UserError("not a mark of ravine", path, "such a file says by which run or command its folder was made",
                      "leave it where it is, or ask about its folder");
    return Json{
        {"kind", "mark of a folder"},
        {"path", path},
        {"made_as", mark->kind.empty() ? "not said (an older version)" : mark->kind},
        {"made_by", mark->run},
        {"files", mark->files.size()},
        {"to_use_it",
         fmt::format("ravine knows by it what in its folder is its own: leave it there; `ravine info {}` is about the folder",
                     shell_word(folder.string()))}};
  }
  return {};
}

void unknown_kind(const std::string& path, bool folder) {
  if (folder)
    throw UserError(
        "unknown kind of folder", path,
        "folders of these kinds are described: run, folder of runs, checkpoint (also of Megatron, DeepSpeed, MindFormers), model, PEFT adapter, tokenizer, TensorBoard events, dump, texts",
        "check the path, or name a file in it");
  throw UserError(
      "unknown kind of file", path,
      "files of these kinds are described: *.safetensors *.bin *.pt *.pth *.ckpt (weights), tokenizer.json, tokenizer.model and their parts, config.json, options (*.yaml), metrics.jsonl, "
      "events.out.tfevents.* (TensorBoard), .bin/.idx, *.txt *.jsonl *.json *.csv *.parquet (data, also .gz .zst .xz), *.npy, *.jinja, timelines (*.json), *.svg *.html",
      "check the name");
}

}  // namespace ravine
