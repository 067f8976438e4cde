#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/parallel.h"
#include "base/text.h"
#include "files/compressed.h"
#include "files/convert.h"
#include "files/safetensors.h"
#include "io/file_rows.h"
#include "io/huggingface.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;       // elements of one chunk
constexpr int64_t kMaxIndex = int64_t{256} << 20;  // bytes

using Files = std::vector<std::unique_ptr<SafetensorsReader>>;

struct Stored {
  const SafetensorsReader* file = nullptr;
  const TensorInfo* info = nullptr;
};

std::string at(const std::string& path, std::string_view tensor) {
  return fmt::format("{}: tensor '{}'", path, printable(tensor));
}

std::vector<std::pair<std::string, std::string>> read_index(const std::string& path) {
  const std::string text = read_whole(path, kMaxIndex);
  nlohmann::json index;  // sorted keys: an ordered document takes quadratic time for the many names of a large model
  try {
    index = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    throw UserError("not valid JSON", path, e.what(), "repair or replace the file");
  }
  auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    throw UserError("not an index of weights", fmt::format("{}: key 'weight_map'", path),
                    "it must be an object of tensor names and files", "repair or replace the file");
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, file] : map->items()) {
    const std::string shard = file.is_string() ? file.get<std::string>() : "";
    if (shard.empty() || shard.find_first_of(std::string("/\0", 2)) != std::string::npos || shard == "..")
      throw UserError("index names no file", at(path, name), "it must be the name of a file in the same folder",
                      "repair the index");
    out.emplace_back(name, shard);
  }
  return out;
}

Files open_shards(const std::string& folder, const std::string& index_path) {
  Files files;
  std::unordered_map<std::string, const SafetensorsReader*> opened;
  for (const auto& [name, shard] : read_index(index_path)) {
    auto [it, fresh] = opened.emplace(shard, nullptr);
    if (fresh) {
      const std::string path = folder + "/" + shard;
      if (!fs::exists(path))
        throw UserError("missing weight file", path, fmt::format("{} names it for tensor '{}'", index_path, printable(name)),
                        "put the file there or repair the index");
      it->second = files.emplace_back(std::make_unique<SafetensorsReader>(path)).get();
    }
    if (!it->second->find(name))
      throw UserError("missing tensor", at(it->second->path(), name),
                      fmt::format("{} says that this file holds it", index_path), "repair the index or replace the file");
  }
  return files;
}

Files open_weights(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UserError("cannot read weights", folder, "it must be a folder with model.safetensors", "check the path");
  Files files;
  if (const std::string single = folder + "/model.safetensors"; fs::exists(single)) {
    files.push_back(std::make_unique<SafetensorsReader>(single));
    return files;
  }
  if (const std::string index = folder + "/model.safetensors.index.json"; fs::exists(index)) return open_shards(folder, index);
  std::vector<std::string> paths;
  bool pickled = false;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors")) paths.push_back(entry.path().string());
    pickled = pickled || (name.starts_with("pytorch_model") && name.find(".bin") != std::string::npos);
  }
  if (pickled)  // what Transformers would read here, whatever else lies beside it
    throw UserError("cannot read weights", folder + "/pytorch_model.bin", "reading pickled weights comes in a later release",
                    "convert to safetensors: model.save_pretrained(DIR) in Transformers");
  if (paths.empty())
    throw UserError("no weights", folder, "it must hold model.safetensors, or shards with model.safetensors.index.json",
                    "give a complete model folder, or model.config to start from random weights");
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) files.push_back(std::make_unique<SafetensorsReader>(path));
  return files;
}

// Which stored tensor is which of the family's, by index. Everything is checked here, before any weight changes.
std::vector<Stored> match(const Files& files, const std::string& folder, const Model& model) {
  const WeightFiles& all = model.files();
  // By name, with and without the prefix of the base model; -1: a copy of another parameter, which is not read.
  std::unordered_map<std::string, int64_t> by_name;
  auto know = [&](const std::string& name, int64_t index) {
    by_name.emplace(name, index);
    if (name.starts_with(all.base)) by_name.emplace(name.substr(all.base.size()), index);
  };
  for (size_t i = 0; i < all.tensors.size(); ++i) know(all.tensors[i].name, static_cast<int64_t>(i));
  for (const std::string& name : all.copies) know(name, -1);
  std::vector<Stored> out(all.tensors.size());
  for (const auto& file : files) {
    for (const TensorInfo& info : file->tensors()) {
      auto it = by_name.find(std::string(info.name));
      if (it == by_name.end()) {
        if (all.constant(info.name)) continue;
        std::vector<std::string> names;
        for (const FileTensor& t : all.tensors) names.push_back(t.name);
        const std::string near = nearest(info.name, names);
        throw UserError("surplus tensor", at(file->path(), info.name),
                        fmt::format("the model ({}) has no parameter of this name", model.facts().family),
                        near.empty() ? "use weights that belong to config.json" : fmt::format("did you mean '{}'?", near));
      }
      if (it->second < 0) continue;
      Stored& place = out[static_cast<size_t>(it->second)];
      const FileTensor& t = all.tensors[static_cast<size_t>(it->second)];
      if (place.info)
        throw UserError("tensor is stored twice", at(file->path(), info.name),
                        fmt::format("'{}' in {} is the same parameter", printable(place.info->name), place.file->path()),
                        "remove one of them");
      if (!(info.shape == t.shape))
        throw UserError("misshapen tensor", at(file->path(), info.name),
                        fmt::format("its shape is {}, the model needs {}", info.shape.text(), t.shape.text()),
                        "use weights that belong to config.json");
      if (!is_float(info.dtype))
        throw UserError("tensor is not floating", at(file->path(), info.name),
                        fmt::format("weights must be f32, bf16, f16 or f64, it is {}", name(info.dtype)),
                        "convert the weights");
      place = {file.get(), &info};
    }
  }
  const FileTensor* first = nullptr;
  int64_t missing = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].info) continue;
    if (!first) first = &all.tensors[i];
    ++missing;
  }
  if (first) {
    const std::string where = files.size() == 1 ? files[0]->path() : folder;
    throw UserError("missing tensor", at(where, first->name),
                    fmt::format("the model needs it ({} of {} parameters are missing)", missing, out.size()),
                    "use weights that belong to config.json");
  }
  return out;
}

struct Piece {
  Stored from;
  const FileTensor* tensor;
  std::vector<TensorView> to;
  FileRange range;
};

void copy_piece(const Piece& p, std::vector<std::byte>& scratch) {
  const DType from = p.from.info->dtype;
  const int64_t offset = p.range.begin * size_of(from);
  const auto bytes = static_cast<size_t>(p.range.count * size_of(from));
  if (p.to.size() == 1 && from == p.to[0].dtype && !p.tensor->transposed) {
    p.from.file->read(*p.from.info, offset, {static_cast<std::byte*>(p.to[0].data) + offset, bytes});
    return;
  }
  scratch.resize(bytes);
  p.from.file->read(*p.from.info, offset, scratch);
  scatter(*p.tensor, p.range, from, scratch.data(), p.to);
}

}  // namespace

void check_weights(const std::string& folder, const Model& model) { match(open_weights(folder), folder, model); }

std::vector<std::string> load_weights(const std::string& folder, Model& model, ParamStore& store) {
  const Files files = open_weights(folder);
  const std::vector<Stored> stored = match(files, folder, model);
  const std::vector<FileTensor>& tensors = model.files().tensors;
  std::vector<std::vector<std::byte>> scratch(static_cast<size_t>(thread_count()));
  std::vector<std::string> names;
  for (size_t i = 0; i < tensors.size(); ++i) names.emplace_back(stored[i].info->name);
  for (const Unit& unit : model.params().units()) {
    Lease lease(store, unit);
    std::vector<Piece> pieces;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const FileTensor& t = tensors[i];
      if (t.params[0]->unit != &unit) continue;
      std::vector<TensorView> to;
      for (const Param* p : t.params) {
        to.push_back(store.master(*p));
        require(to.back().shape == p->shape && to.back().contiguous(),
                "load_weights: the master of '{}' is whole and contiguous, got {}", p->name, to.back().shape.text());
      }
      if (to[0].device == DeviceKind::meta) continue;
      for (const FileRange& range : file_ranges(t, kPiece)) pieces.push_back({stored[i], &t, to, range});
    }
    parallel_for_threads(static_cast<int64_t>(pieces.size()), [&](int64_t i, int thread) {
      copy_piece(pieces[static_cast<size_t>(i)], scratch[static_cast<size_t>(thread)]);
    });
  }
  return names;
}

}  // namespace ravine
