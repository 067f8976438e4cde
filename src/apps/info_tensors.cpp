#include "apps/info_tensors.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "apps/stored_tensors.h"
#include "base/counted.h"
#include "base/shell_word.h"
#include "files/tensor_set.h"

namespace fs = std::filesystem;

namespace ravine {

void add_tensors(Json& j, const std::string& path, bool list, std::string_view weights) {
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

std::string kind_of_tensors(const Metadata& metadata) {
  auto is = [&](const char* key, std::string_view begin) {
    const auto it = metadata.find(key);
    return it != metadata.end() && std::string_view(it->second).starts_with(begin);
  };
  if (is("ravine", "trace")) return "trace (ravine trace)";
  return is("format", "ravine-tokens") || is("format", "ravine-chats") ? "tokens that a run keeps for its next start" : "";
}

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

}  // namespace ravine
