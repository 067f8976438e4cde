#include "checks/job_facts.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "data/mindrecord/mindrecord_files.h"
#include "files/safetensors.h"
#include "io/convert/deepspeed_layout.h"
#include "io/convert/megatron_arguments.h"
#include "io/convert/mindformers_strategy.h"
#include "styles/megatron_files.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace {

std::optional<MindFormersFacts::Data> size_of_data(const std::string& type, const std::vector<std::string>& paths) {
  if (type != "MindDataset" || !std::all_of(paths.begin(), paths.end(), is_mindrecord_path)) return {};
  const MindRecordFiles files(paths);
  const bool has = files.rows() > 0 && files.has("input_ids");
  return MindFormersFacts::Data{files.rows(), has ? static_cast<int64_t>(files.values(0, "input_ids").size()) : 0,
                                files.columns()};
}

std::string disagreement(const std::string& strategy, const std::string& weights, const Json& model) {
  return strategy_disagreement(read_mindformers_strategy(strategy), weights, model, "model.model_config");
}

}  // namespace

MegatronJob megatron_job(int64_t ranks, bool runs) {
  MegatronJob job{.ranks = ranks, .runs = runs};
  job.vocabulary = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::exists(path, error) ? open_tokenizer(path)->size() : 0;
  };
  job.beyond_files = beyond_megatron_files;
  job.held = options_in_checkpoints;
  job.network = [](const std::string& folder) {
    const StoredNetwork stored = stored_network(folder);
    return Json{{"where", stored.where}, {"arguments", stored.arguments}};
  };
  return job;
}

MindFormersFacts mindformers_facts(int64_t ranks, bool runs) {
  return {.ranks = ranks, .runs = runs, .data = size_of_data, .disagreement = disagreement};
}

void look_at_model(const TrainerArguments& args, TrainerFacts& facts) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = args.has("model_name_or_path") ? args.text("model_name_or_path")
                  : args.has("config_name")      ? args.text("config_name")
                                                 : "";
  if (fs::is_directory(path, error)) path /= "config.json";
  if (path.empty() || !fs::is_regular_file(path, error)) return;
  const Json config = read_json(path.string());
  const auto whole = [&](const char* key) -> std::optional<int64_t> {
    const auto it = config.find(key);
    if (it == config.end() || !it->is_number_integer() || it->get<int64_t>() <= 0 || it->get<int64_t>() > (1 << 24)) return {};
    return it->get<int64_t>();
  };
  if (!config.is_object()) return;
  try {
    check_deepspeed_order(config, path.string());
    facts.ordered = true;
  } catch (const UserError&) {  // reported when the model is opened
    facts.ordered = false;
  }
  for (const char* key : {"torch_dtype", "dtype"})
    if (const auto it = config.find(key); it != config.end() && it->is_string()) facts.dtype = it->get<std::string>();
  facts.hidden_size = whole("hidden_size");
  facts.positions = whole("max_position_embeddings");
  if (const auto sizes = config.find("hidden_sizes"); !facts.hidden_size && sizes != config.end() && sizes->is_array())
    for (const Json& size : *sizes)
      if (size.is_number_integer()) facts.hidden_size = std::max(facts.hidden_size.value_or(0), size.get<int64_t>());
}

std::optional<int64_t> columns_of_batches(const std::string& file) {
  std::error_code error;
  if (!file.ends_with(".safetensors") || !std::filesystem::is_regular_file(file, error)) return {};
  const SafetensorsReader reader(file);
  const TensorInfo* ids = reader.find("input_ids");
  if (!ids || ids->shape.rank() != 2) return {};
  return ids->shape[1];
}

}  // namespace ravine
