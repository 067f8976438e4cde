#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/log.h"
#include "files/atomic.h"
#include "files/compressed.h"
#include "files/copy_file.h"
#include "files/folder_mark.h"
#include "files/tokenizer_files.h"
#include "io/huggingface.h"
#include "io/write_tensors.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kMaxTokenizer = int64_t{1} << 30;  // bytes

std::string torch_name(DType t) {
  switch (t) {
    case DType::f64:
      return "float64";
    case DType::f32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    default:
      fail("save_model_folder: weights are f32, bf16, f16 or f64, got {}", name(t));
  }
}

Json model_config(const Model& model, DType dtype) {
  Json config = model.config();
  config[config.contains("dtype") && !config.contains("torch_dtype") ? "dtype" : "torch_dtype"] = torch_name(dtype);
  if (config.contains("dtype")) config["dtype"] = torch_name(dtype);
  if (!config.contains("architectures") || !config["architectures"].is_array() || config["architectures"].empty())
    config["architectures"] = {model.files().architecture};
  return config;
}

Json generation_config(const Json& given, const ModelFacts& f) {
  Json g = given;
  if (f.bos >= 0 && !g.contains("bos_token_id")) g["bos_token_id"] = f.bos;
  std::vector<int64_t> eos = f.eos;
  std::erase_if(eos, [](int64_t id) { return id < 0; });  // -1: none
  if (!eos.empty() && !g.contains("eos_token_id")) g["eos_token_id"] = eos.size() == 1 ? Json(eos[0]) : Json(eos);
  if (f.pad >= 0 && !g.contains("pad_token_id")) g["pad_token_id"] = f.pad;
  return g;
}

void copy_tokenizer_files(const std::string& source, const std::string& into) {
  std::error_code error;
  if (fs::is_directory(source, error)) {
    std::vector<const char*> files(kTokenizerFiles.begin(), kTokenizerFiles.end());
    files.insert(files.end(), kTemplateFiles.begin(), kTemplateFiles.end());
    for (const char* file : files) {
      const std::string from = (fs::path(source) / file).string();
      if (fs::is_regular_file(from, error))
        copy_plain_file(from, into + "/" + file);
      else if (fs::is_regular_file(from + ".xz", error))
        write_file_atomic(into + "/" + file, read_whole(from + ".xz", kMaxTokenizer));
    }
    if (const fs::path more = fs::path(source) / "additional_chat_templates"; fs::is_directory(more, error)) {
      fs::create_directory(into + "/additional_chat_templates");
      for (const auto& entry : fs::directory_iterator(more, error))
        if (entry.is_regular_file(error))
          copy_plain_file(entry.path().string(), into + "/additional_chat_templates/" + entry.path().filename().string());
    }
    return;
  }
  if (!fs::is_regular_file(source, error))
    throw UserError("cannot copy tokenizer", source, "it must be a folder or a file", "check the path");
  std::string plain = source;
  for (const char* packed : {".xz", ".gz", ".zst"})
    if (plain.ends_with(packed)) plain.erase(plain.size() - std::string_view(packed).size());
  const std::string name = plain.ends_with(".json") ? "tokenizer.json" : "tokenizer.model";
  if (plain == source)
    copy_plain_file(source, into + "/" + name);
  else
    write_file_atomic(into + "/" + name, read_whole(source, kMaxTokenizer));
}

}  // namespace

void copy_tokenizer(const std::string& source, const std::string& into, const MissingTokenizerFiles& missing) {
  // Left by an interrupted attempt, not the source's.
  for (const char* made : {"tokenizer.json", "tokenizer_config.json"}) {
    std::error_code error;
    if (missing) fs::remove(fs::path(into) / made, error);
  }
  copy_tokenizer_files(source, into);
  if (!missing) return;
  for (const auto& [name, text] : missing(into)) write_file_atomic(into + "/" + name, text);
}

namespace {

struct Entry {
  const FileTensor* tensor;
  int64_t bytes;
  const std::string& name() const { return tensor->name; }
};

// Splits the tensors into shards as huggingface_hub splits a state dict: in order, with a new shard if the next tensor
// does not fit.
std::vector<std::vector<Entry>> split_shards(const Model& model, DType dtype, int64_t limit) {
  std::vector<std::vector<Entry>> shards(1);
  int64_t size = 0;
  for (const FileTensor& t : model.files().tensors) {
    const int64_t bytes = t.shape.count() * size_of(dtype);
    if (limit > 0 && !shards.back().empty() && size + bytes > limit) {
      shards.emplace_back();
      size = 0;
    }
    shards.back().push_back({&t, bytes});
    size += bytes;
  }
  return shards;
}

void write_weights(const std::string& folder, const SaveFolder& options, const Model& model, WeightSource& store) {
  const auto shards = split_shards(model, options.dtype, options.shard_bytes);
  int64_t total = 0, beyond = 0;
  std::map<std::string, std::string> shard_of;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file =
        shards.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    std::vector<const FileTensor*> tensors;
    for (const Entry& e : shards[i]) {
      tensors.push_back(e.tensor);
      shard_of[e.name()] = file;
      total += e.bytes;
    }
    beyond += write_tensors(folder + "/" + file, tensors, options.dtype, store);
  }
  if (beyond > 0)
    print_stderr(
        fmt::format("warning: {}: {} beyond f16 (65504), infinite in the file: export as bf16 or f32 (checkpoint.model_dtype)",
                    options.dir, beyond == 1 ? "1 weight is" : fmt::format("{} weights are", beyond)));
  if (shards.size() == 1) return;
  Json index;
  index["metadata"] = {{"total_parameters", total / size_of(options.dtype)}, {"total_size", total}};
  std::string text = index.dump(2);
  // Removes "\n}": the map is written as text, since a JSON document with many ordered names takes quadratic time.
  text.resize(text.size() - 2);
  text += ",\n  \"weight_map\": {";
  const char* comma = "\n";
  for (const auto& [name, file] : shard_of) {
    text += fmt::format("{}    {}: \"{}\"", comma, Json(name).dump(), file);
    comma = ",\n";
  }
  write_file_atomic(folder + "/model.safetensors.index.json", text + "\n  }\n}\n");
}

}  // namespace

void refuse_foreign_model(const std::string& folder, const std::string& run, FolderMark* seen) {
  std::error_code error;
  if (!fs::is_directory(folder, error) || fs::is_empty(folder, error)) return;
  auto mark = read_mark(folder);
  if (!mark || mark->run != run || (!mark->kind.empty() && mark->kind != kModelFolder))
    throw UserError("cannot write model folder", folder, "it exists and was not written by this run, so it is not replaced",
                    "choose another folder, or move it away");
  if (seen)
    for (auto& [path, file] : mark->files)
      if (const auto had = seen->files.find(path);
          had != seen->files.end() && had->second.bytes == file.bytes && had->second.checksum == file.checksum)
        file = had->second;
  const std::string foreign = foreign_in_folder(folder, *mark, !seen);
  if (seen) *seen = *mark;
  if (!foreign.empty())
    throw UserError("cannot write model folder", folder + "/" + foreign,
                    "this file was put there or changed by somebody else, and would be lost",
                    "move it away, or choose another folder");
}

void save_chat_files(const SaveFolder& options, const std::string& into, const Model& model, bool generation) {
  if (generation)
    write_file_atomic(into + "/generation_config.json", generation_config(options.generation, model.facts()).dump(2) + "\n");
  if (!options.tokenizer.empty()) copy_tokenizer(options.tokenizer, into, options.missing_tokenizer_files);
  if (!options.chat_template.empty()) write_file_atomic(into + "/chat_template.jinja", options.chat_template);
}

void save_model_folder(const SaveFolder& options, const Model& model, WeightSource& store) {
  torch_name(options.dtype);
  require(options.generation.is_object(), "save_model_folder: generation is a JSON object, got {}",
          options.generation.type_name());
  std::error_code error;
  fs::path target = fs::path(options.dir).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();
  if (fs::exists(target, error) && !fs::is_directory(target, error))
    throw UserError("cannot write model folder", options.dir, "a file has this name", "choose another folder");
  FolderMark seen = options.seen;
  refuse_foreign_model(target.string(), options.run, &seen);
  if (target.has_parent_path()) create_folders(target.parent_path().string());
  AtomicFolder folder(target.string());
  write_file_atomic(folder.folder() + "/config.json", model_config(model, options.dtype).dump(2) + "\n");
  save_chat_files(options, folder.folder(), model, true);
  write_weights(folder.folder(), options, model, store);
  write_mark(folder.folder(), mark_of(folder.folder(), options.run, kModelFolder));
  try {
    folder.commit([&](const std::string& replaced) { refuse_foreign_model(replaced, options.run, &seen); });
  } catch (const UserError& e) {
    // Not kept under its temporary name: the next start removes temporary folders.
    for (int n = 1;; ++n) {
      const std::string fallback = fmt::format("{}.new-{}", target.string(), n);
      if (::renameat2(AT_FDCWD, folder.folder().c_str(), AT_FDCWD, fallback.c_str(), RENAME_NOREPLACE) != 0) {
        if (errno == EEXIST) continue;
        folder.keep();
        throw_system("rename the model folder to", fallback, errno);
      }
      sync_folder(folder_of(fallback));
      throw UserError("the model could not get its name", fallback, e.what(),
                      "it is complete: move away the folder that has its name, and rename it");
    }
  }
}

}  // namespace ravine
