#include "io/convert/hf_folder.h"

#include "io/convert/dist_folder.h"

#include <filesystem>

#include "files/copy_file.h"
#include "files/safetensors.h"
#include "io/adapter_folder.h"
#include "io/convert/stream.h"
#include "io/huggingface.h"
#include "io/open_weights.h"

namespace fs = std::filesystem;

namespace ravine {

Weights read_hf(const std::string& path, const Json& config, const std::string& config_where) {
  Weights w;
  w.config = config;
  w.config_where = config_where;
  w.folder = path;
  if (w.config.is_null() && fs::exists(path + "/config.json")) w.config = read_json(w.config_where = path + "/config.json");
  if (is_dist_folder(path)) {
    for (auto& [name, e] : read_fsdp_weights(path)) w.add(name, e);
    return w;
  }
  std::vector<std::unique_ptr<TensorFile>> files = open_weights(path);
  check_export(path, true);
  for (auto& file : files) {
    const std::shared_ptr<const TensorFile> shared = std::move(file);
    for (const TensorInfo& t : shared->tensors()) w.add(t.name, stored(shared, t));
  }
  return w;
}

void write_weight_file(TargetFolder& folder, const std::string& file, const std::vector<const NamedElements*>& tensors,
                       const Metadata& metadata, const std::function<void(int64_t)>& progress) {
  if (folder.has(file)) {
    for (const NamedElements* t : tensors) progress(t->elements->count() * size_of(t->dtype));
    return;
  }
  const std::string path = folder.path(file);
  create_folders(folder_of(path));
  SafetensorsWriter writer(path, {.metadata = metadata, .straight = true});
  for (const NamedElements* t : tensors) writer.declare(t->name, t->dtype, t->elements->shape());
  for (const NamedElements* t : tensors)
    stream(*t->elements, t->dtype, [&](std::span<const std::byte> bytes) {
      writer.write(t->name, bytes);
      progress(static_cast<int64_t>(bytes.size()));
    });
  writer.commit();
}

std::map<std::string, std::string> write_shards(TargetFolder& folder, const std::vector<NamedElements>& tensors,
                                                const std::string& single, const std::string& stem, const Metadata& metadata,
                                                const std::function<void(int64_t)>& progress) {
  std::vector<std::vector<const NamedElements*>> shards(1);
  int64_t size = 0;
  for (const NamedElements& t : tensors) {
    const int64_t bytes = t.elements->count() * size_of(t.dtype);
    if (!shards.back().empty() && size + bytes > kShardBytes) shards.emplace_back(), size = 0;
    shards.back().push_back(&t);
    size += bytes;
  }
  std::map<std::string, std::string> shard_of;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = shards.size() == 1 && !single.empty()
                                 ? single
                                 : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, shards.size());
    for (const NamedElements* t : shards[i]) shard_of[t->name] = file;
    write_weight_file(folder, file, shards[i], metadata, progress);
  }
  return shard_of;
}

void write_config(TargetFolder& folder, const Weights& w, const std::vector<NamedElements>& tensors) {
  if (w.config.is_null()) return;
  Json config = w.config;
  bool one = !tensors.empty();
  for (const NamedElements& t : tensors) one = one && t.dtype == tensors[0].dtype;
  if (one && is_float(tensors[0].dtype)) {
    const DType d = tensors[0].dtype;
    const char* text = d == DType::f64 ? "float64" : d == DType::f32 ? "float32" : d == DType::bf16 ? "bfloat16" : "float16";
    if (config.contains("dtype")) config["dtype"] = text;
    if (config.contains("torch_dtype") || !config.contains("dtype")) config["torch_dtype"] = text;
  }
  write_file_atomic(folder.path("config.json"), config.dump(2) + "\n");
}

void copy_companion_files(TargetFolder& folder, const Weights& w) {
  const ChatPaths paths = chat_paths(w.tokenizer.empty() ? w.folder : w.tokenizer, w.adapter);
  if (!paths.tokenizer.empty()) copy_tokenizer(paths.tokenizer, folder.folder(), w.missing_tokenizer_files);
  auto copy = [&](const fs::path& file) {
    std::error_code error;
    if (fs::is_regular_file(file, error)) copy_plain_file(file.string(), folder.path(file.filename().string()));
  };
  copy(paths.chat_template);
  if (const std::string from = w.adapter.empty() || paths.generation != w.adapter ? w.folder : w.adapter; !from.empty())
    copy(fs::path(from) / "generation_config.json");
}

void write_hf(TargetFolder& folder, const Weights& w, const std::vector<NamedElements>& tensors,
              const std::function<void(int64_t)>& progress) {
  write_config(folder, w, tensors);
  copy_companion_files(folder, w);
  const auto shard_of = write_shards(folder, tensors, "model.safetensors", "model", {{"format", "pt"}}, progress);
  if (shard_of.empty() || shard_of.begin()->second == "model.safetensors") return;
  int64_t bytes = 0;
  for (const NamedElements& t : tensors) bytes += t.elements->count() * size_of(t.dtype);
  std::string text = fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", bytes);
  const char* comma = "\n";
  for (const auto& [name, file] : shard_of) {
    text += fmt::format("{}    {}: \"{}\"", comma, Json(name).dump(), file);
    comma = ",\n";
  }
  write_file_atomic(folder.path("model.safetensors.index.json"), text + "\n  }\n}\n");
}

}  // namespace ravine
