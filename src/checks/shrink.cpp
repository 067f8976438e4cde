#include "checks/shrink.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "base/error.h"
#include "dialects/reverse.h"
#include "files/atomic.h"
#include "files/safetensors.h"
#include "files/tokenizer_files.h"
#include "io/convert/convert.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

// Fields of config.json that hold the number of layers.
constexpr const char* kLayerFields[] = {"num_hidden_layers", "n_layer", "num_layers"};

// Returns the number of the layer in the name of a tensor; -1 if it belongs to no layer.
int64_t layer_of(const std::string& name) {
  static const std::regex kLayer("(^|\\.)(layers|h|blocks)\\.([0-9]+)\\.");
  std::smatch found;
  return std::regex_search(name, found, kLayer) ? std::stoll(found[3].str()) : -1;
}

// Returns the options whose values differ between two configs, with both values.
std::vector<std::string> changed_options(Config before, Config after) {
  std::vector<std::string> out;
  std::vector<Section> a = sections_of(before), b = sections_of(after);
  for (size_t s = 0; s < a.size(); ++s)
    for (size_t i = 0; i < a[s].options.size(); ++i) {
      const std::string x = a[s].options[i].yaml(), y = b[s].options[i].yaml();
      const std::string option = a[s].options[i].name();
      if (x != y && !option.starts_with("data.") && option != "model.config" && option != "train.output")
        out.push_back(fmt::format("{} {} -> {}", option, x.empty() ? "\"\"" : x, y.empty() ? "\"\"" : y));
    }
  return out;
}

std::string absolute(const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

}  // namespace

Json first_layers(const Json& model, int64_t layers, const std::string& where) {
  Json out = model;
  int64_t had = 0;
  for (const char* field : kLayerFields)
    if (const auto it = out.find(field); it != out.end() && it->is_number_integer()) had = it->get<int64_t>(), *it = layers;
  if (had < layers)
    throw UserError(fmt::format("{} of {} layers", layers, had), where, "a model is cut to fewer layers than it has",
                    had > 0 ? fmt::format("give --layers {} or fewer", had) : "name a config with num_hidden_layers");
  for (auto& [key, value] : out.items()) {
    if (!value.is_array()) continue;
    if (key == "mlp_only_layers") {
      Json kept = Json::array();
      for (const Json& layer : value)
        if (layer.is_number_integer() && layer.get<int64_t>() < layers) kept.push_back(layer);
      value = kept;
    } else if (static_cast<int64_t>(value.size()) == had && key != "architectures") {
      value.erase(value.begin() + layers, value.end());
    }
  }
  return out;
}

ReducedCase reduced_case(const Side& side, int64_t layers, int64_t steps) {
  if (!side.model.is_object())
    throw UserError("no model", side.path, "its layers are cut, so it must be known",
                    side.notes.empty() ? "name a config with a model" : side.notes.front());
  ReducedCase out{side.config, first_layers(side.model, layers, side.path), {}};
  Config& c = out.config;
  c.train.steps = steps, c.train.epochs = 0;
  c.train.dropout = c.train.attention_dropout = c.lora.dropout = 0;
  c.train.recompute_layers.clear();
  c.schedule = ScheduleOptions();
  c.schedule.type = ScheduleType::constant, c.schedule.warmup_steps = 0;
  if (c.optimizer.eps.size() == 1) c.optimizer.eps = {1e-8};
  c.parallel = ParallelOptions();
  c.checkpoint = CheckpointOptions();
  c.log.style = LogOptions().style, c.log.every = 1;
  out.changes = changed_options(side.config, c);
  for (const char* field : kLayerFields)
    if (side.model.contains(field) && side.model[field] != out.model[field])
      out.changes.insert(out.changes.begin(), fmt::format("{} {} -> {}", field, side.model[field].dump(), layers));
  for (std::vector<DataSource>* sources : {&c.data.train, &c.data.valid})
    for (DataSource& source : *sources) source.path = absolute(source.path);
  c.model.tokenizer = absolute(c.model.tokenizer.empty() && !c.model.path.empty() ? c.model.path : c.model.tokenizer);
  if (std::error_code error; !c.data.chat_template.empty() && fs::exists(c.data.chat_template, error))
    c.data.chat_template = absolute(c.data.chat_template);
  c.model.path.clear(), c.model.weights.clear();
  c.model.config = out.model.dump();
  return out;
}

int64_t write_first_layers(const std::string& weights, const Json& whole, const ReducedCase& reduced,
                           const std::string& tokenizer, const std::string& folder) {
  const std::unique_ptr<TensorFile> file = open_weights_of_any(weights, whole, weights);
  int64_t layers = 0;
  for (const char* field : kLayerFields)
    if (reduced.model.contains(field)) layers = reduced.model[field].get<int64_t>();
  fs::create_directories(folder);
  SafetensorsWriter writer((fs::path(folder) / "model.safetensors").string(), {.metadata = {{"format", "pt"}}});
  std::vector<const TensorInfo*> kept;
  for (const TensorInfo& tensor : file->tensors())
    if (layer_of(tensor.name) < layers) kept.push_back(&tensor);
  if (kept.empty()) throw UserError("no tensors", weights, "the weights must have layers", "name the weights of this model");
  for (const TensorInfo* tensor : kept) writer.declare(tensor->name, tensor->dtype, tensor->shape);
  for (const TensorInfo* tensor : kept) writer.write(tensor->name, file->bytes(*tensor));
  writer.commit();
  write_file_atomic((fs::path(folder) / "config.json").string(), reduced.model.dump(2) + "\n");
  std::error_code error;
  const fs::path from = fs::is_directory(tokenizer, error) ? fs::path(tokenizer) : fs::path(tokenizer).parent_path();
  if (!tokenizer.empty())
    for (const auto& names : {std::vector<std::string>(kTokenizerFiles.begin(), kTokenizerFiles.end()),
                              std::vector<std::string>(kTemplateFiles.begin(), kTemplateFiles.end())})
      for (const std::string& name : names)
        if (fs::is_regular_file(from / name, error))
          fs::copy_file(from / name, fs::path(folder) / name, fs::copy_options::overwrite_existing, error);
  return static_cast<int64_t>(kept.size());
}

}  // namespace ravine
