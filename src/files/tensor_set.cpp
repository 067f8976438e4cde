#include "files/tensor_set.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/json.h"
#include "files/mindspore_ckpt.h"
#include "files/safetensors.h"
#include "files/torch_file.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// Reads an index: tensor to file name. A file must be in the same folder.
std::map<std::string, std::string> read_index(const std::string& path) {
  const Json index = read_json(path, int64_t{64} << 20);
  const std::string fix = "export the model again";
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw UserError("bad index", path, "it holds an object 'weight_map'", fix);
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos ||
        !file.get<std::string>().ends_with(".safetensors"))
      throw UserError("bad index", fmt::format("{}: tensor '{}'", path, printable(tensor)),
                      "it names a *.safetensors file of this folder", fix);
    shard_of[tensor] = file.get<std::string>();
  }
  return shard_of;
}

// Throws if the folder has model.safetensors and all files of an index: either of them may be the model.
void refuse_two_models(const std::string& path, const std::map<std::string, std::string>& index) {
  std::set<std::string> files;
  std::error_code error;
  for (const auto& [tensor, file] : index)
    if (file == "model.safetensors" || !fs::exists(path + "/" + file, error)) return;
  for (const auto& [tensor, file] : index) files.insert(file);
  if (files.empty()) return;
  throw UserError(
      "two models in a folder", path,
      fmt::format(
          "model.safetensors and the {} files of model.safetensors.index.json are both whole, and Transformers takes the first",
          files.size()),
      "move away the one that is not the model");
}

}  // namespace

std::unique_ptr<TensorFile> open_tensor_file(const std::string& path) {
  for (const char* end : {".bin", ".pt", ".pth"})
    if (path.ends_with(end)) return std::make_unique<TorchStateFile>(path);
  if (path.ends_with(".ckpt")) return std::make_unique<CkptFile>(path);
  return std::make_unique<SafetensorsReader>(path);
}

TensorSet::TensorSet(const std::string& path) {
  std::set<std::string> names;
  std::map<std::string, std::string> index;
  const std::string index_path = path + "/model.safetensors.index.json";
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    names.insert(path);
  } else if (fs::exists(path + "/model.safetensors", error)) {
    names.insert(path + "/model.safetensors");
    if (fs::exists(index_path, error)) refuse_two_models(path, read_index(index_path));
  } else if (fs::exists(index_path, error)) {
    index = read_index(index_path);
    for (const auto& [tensor, file] : index) names.insert(path + "/" + file);
  } else {
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.path().extension() == ".safetensors") names.insert(path + "/" + entry.path().filename().string());
    if (error) throw_system("read folder", path, error.value());
    if (names.empty())
      for (const auto& entry : fs::directory_iterator(path, error))
        if (const std::string file = entry.path().filename().string();
            file.starts_with("pytorch_model") && file.ends_with(".bin"))
          names.insert(path + "/" + file);
    if (names.empty())
      throw UserError("no tensors", path, "the folder must hold *.safetensors or pytorch_model*.bin files", "check the path");
  }
  for (const std::string& name : names) {
    files_.push_back(open_tensor_file(name));
    for (const TensorInfo& t : files_.back()->tensors()) {
      auto [it, added] = tensors_.emplace(t.name, PlacedTensor{files_.back().get(), &t});
      if (!added)
        throw UserError("tensor in two files", fmt::format("{}: tensor '{}'", name, printable(t.name)),
                        fmt::format("it is also in '{}'", it->second.file->path()),
                        "remove the file that does not belong there");
    }
  }
  for (const auto& [tensor, file] : index) {
    auto it = tensors_.find(tensor);
    if (it == tensors_.end() || it->second.file->path() != path + "/" + file)
      throw UserError("missing tensor", fmt::format("{}: tensor '{}'", index_path, printable(tensor)),
                      fmt::format("the index places it in '{}', which does not have it", file),
                      "download or export the model again");
  }
}

}  // namespace ravine
