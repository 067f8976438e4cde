#include "io/open_weights.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <unordered_map>

#include "base/json.h"
#include "files/checksum.h"
#include "files/compressed.h"
#include "files/fd.h"
#include "files/folder_mark.h"
#include "files/tensor_set.h"
#include "io/convert/elements_file.h"
#include "io/convert/megatron.h"
#include "io/convert/megatron_place.h"
#include "io/convert/zero_checkpoint.h"
#include "io/foreign_kinds.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kMaxIndex = int64_t{64} << 20;  // bytes

using Files = std::vector<std::unique_ptr<TensorFile>>;

// The weight files of a folder: an index file, or a list of paths.
struct Found {
  std::string index;
  std::vector<std::string> paths;
};

Found find_weights(const std::string& folder) {
  for (const char* name : {"/model.safetensors", "/pytorch_model.bin"}) {
    if (fs::exists(folder + name)) return {"", {folder + name}};
    if (const std::string index = folder + name + ".index.json"; fs::exists(index)) return {index, {}};
  }
  // Without a usual name, all files of a kind are used.
  for (const bool pickled : {false, true}) {
    Found found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string file = entry.path().filename().string();
      if (pickled ? file.starts_with("pytorch_model") && file.ends_with(".bin") : file.ends_with(".safetensors"))
        found.paths.push_back(entry.path().string());
    }
    std::sort(found.paths.begin(), found.paths.end());
    if (!found.paths.empty()) return found;
  }
  return {};
}

std::string shard_path(const std::string& folder, const std::string& index_path, const std::string& tensor,
                       const std::string& shard) {
  std::string path = folder + "/" + shard;
  if (!fs::exists(path))
    throw UserError("missing weight file", path, fmt::format("{} names it for tensor '{}'", index_path, printable(tensor)),
                    "put the file there or repair the index");
  return path;
}

Files open_shards(const std::string& folder, const std::string& index_path) {
  Files files;
  std::unordered_map<std::string, const TensorFile*> opened;
  for (const auto& [name, shard] : parse_weight_index(read_whole(index_path, kMaxIndex), index_path)) {
    auto [it, fresh] = opened.emplace(shard, nullptr);
    if (fresh) it->second = files.emplace_back(open_tensor_file(shard_path(folder, index_path, name, shard))).get();
    if (!it->second->find(name))
      throw UserError("missing tensor", tensor_at(it->second->path(), name),
                      fmt::format("{} says that this file holds it", index_path), "repair the index or replace the file");
  }
  return files;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> parse_weight_index(const std::string& text, const std::string& path) {
  const Json index = parse_json(text, path);
  auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    throw UserError("not an index of weights", fmt::format("{}: key 'weight_map'", path),
                    "it must be an object of tensor names and files", "repair or replace the file");
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, file] : map->items()) {
    const std::string shard = file.is_string() ? file.get<std::string>() : "";
    if (shard.empty() || shard.find_first_of(std::string("/\0", 2)) != std::string::npos || shard == "..")
      throw UserError("index names no file", tensor_at(path, name), "it must be the name of a file in the same folder",
                      "repair the index");
    out.emplace_back(name, shard);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> weight_files(const std::string& folder) {
  Found found = find_weights(folder);
  if (found.index.empty() && found.paths.empty() && holds_megatron(folder)) return megatron_files(folder);
  if (found.index.empty() && found.paths.empty() && is_zero_checkpoint(folder)) return zero_checkpoint_files(folder);
  if (found.index.empty()) return found.paths;
  for (const auto& [name, shard] : parse_weight_index(read_whole(found.index, kMaxIndex), found.index))
    found.paths.push_back(shard_path(folder, found.index, name, shard));
  std::sort(found.paths.begin(), found.paths.end());
  found.paths.erase(std::unique(found.paths.begin(), found.paths.end()), found.paths.end());
  return found.paths;
}

std::optional<DType> weights_type(const std::string& folder) {
  std::optional<DType> type;
  for (const auto& file : open_weights(folder))
    for (const TensorInfo& t : file->tensors()) {
      if (!is_float(t.dtype)) continue;
      if (type && *type != t.dtype) return {};
      type = t.dtype;
    }
  return type;
}

void check_export(const std::string& folder, bool thorough) {
  std::optional<FolderMark> mark = read_mark(folder);
  if (!mark || mark->kind != kModelFolder) return;
  std::set<std::string> weights;
  for (const std::string& file : weight_files(folder)) weights.insert(fs::path(file).filename().string());
  std::erase_if(mark->files, [&](const auto& f) { return !weights.count(f.first); });
  if (const std::string changed = changed_in_folder(folder, *mark, thorough); !changed.empty())
    throw UserError("the exported model is damaged, or was changed", folder + "/" + changed,
                    fmt::format("its bytes are not those that the run has written, by the checksum in {}", kFolderMark),
                    fmt::format("export it again by the command of its run, or remove {}/{} if the change is intended", folder,
                                kFolderMark));
}

Files open_weights(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UserError("cannot read weights", folder, "it must be a folder with model.safetensors", "check the path");
  const Found found = find_weights(folder);
  if (!found.index.empty()) return open_shards(folder, found.index);
  Files files;
  for (const std::string& path : found.paths) files.push_back(open_tensor_file(path));
  if (files.empty() && holds_megatron(folder))
    files.push_back(std::make_unique<ElementsFile>(folder, open_megatron_model(folder).tensors));
  if (files.empty() && is_zero_checkpoint(folder))
    files.push_back(std::make_unique<ElementsFile>(folder, read_zero_weights(folder)));
  if (const auto kind = files.empty() ? foreign_kind(folder) : std::nullopt)
    throw UserError(kind->what + ", which is not read", folder, "it must hold safetensors, or pytorch_model*.bin", kind->fix);
  if (files.empty())
    throw UserError("no weights", folder,
                    "it must hold model.safetensors, shards with model.safetensors.index.json, or pytorch_model*.bin",
                    "give a complete model folder, or model.config to start from random weights");
  return files;
}

std::string weights_checksum(const std::string& model_folder) {
  constexpr int64_t kBlock = 4096, kBlocks = 256;
  const std::vector<std::string> files = weight_files(model_folder);
  if (files.empty()) return "";
  Checksum sum;
  std::vector<std::byte> part;
  for (const std::string& path : files) {
    int64_t size = 0;
    const Fd file = open_to_read(path, &size);
    sum.update(std::as_bytes(std::span(&size, 1)));
    // Reads instead of mapping: a touched page would also load its neighbours into memory.
    auto add = [&](int64_t offset, int64_t bytes) {
      part.resize(static_cast<size_t>(bytes));
      read_all_at(*file, offset, part, path);
      sum.update(part);
    };
    if (size <= kBlock * kBlocks) {
      add(0, size);
      continue;
    }
    for (int64_t i = 0; i < kBlocks; ++i) add((size - kBlock) / (kBlocks - 1) * i, kBlock);
    add(size - kBlock, kBlock);
  }
  return checksum_text(sum.value());
}

}  // namespace ravine
