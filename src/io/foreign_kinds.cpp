#include "io/foreign_kinds.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/shell_word.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

struct Names {
  std::vector<std::string> files, folders;

  explicit Names(const fs::path& folder) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      (entry.is_directory(error) ? folders : files).push_back(entry.path().filename().string());
  }
  // Returns the alphabetically first name with this beginning and end; "" if none.
  static std::string first(const std::vector<std::string>& names, std::string_view begin, std::string_view end) {
    std::string out;
    for (const std::string& name : names)
      if (name.starts_with(begin) && name.ends_with(end) && (out.empty() || name < out)) out = name;
    return out;
  }
  std::string file(std::string_view begin, std::string_view end) const { return first(files, begin, end); }
  std::string folder(std::string_view begin) const { return first(folders, begin, ""); }
  bool readable() const {
    return !file("", ".safetensors").empty() || !file("", ".safetensors.index.json").empty() ||
           !file("pytorch_model", ".bin").empty() || !file("pytorch_model", ".bin.index.json").empty();
  }
};

constexpr const char* kOrigin = "take the folder of safetensors that it was made from";

ForeignKind gguf(const std::string& folder, const std::string& file) {
  return {"a GGUF model",
          fmt::format("{}, or let Transformers make one: python -c \"from transformers import AutoModelForCausalLM as M; "
                      "M.from_pretrained('{}', gguf_file='{}').save_pretrained('OUT')\"",
                      kOrigin, folder, file)};
}

std::string to_safetensors(const std::string& folder, const char* from) {
  return fmt::format(
      "let Transformers 4, which still reads it, write one that is: python -c \"from transformers import "
      "AutoModelForCausalLM as M; M.from_pretrained('{}', {}=True).save_pretrained('OUT')\"",
      folder, from);
}

std::string chunks_to_safetensors(const fs::path& folder) {
  return fmt::format(
      "put them together by `ravine convert --input {} --model-config CONFIG.json --to hf --output OUT`, with the model's "
      "config.json",
      shell_word(folder.string()));
}

std::optional<ForeignKind> of_folder(const fs::path& path) {
  const Names has(path);
  const std::string folder = path.string(), word = shell_word(folder);
  if (has.readable()) return {};
  if (const std::string chunks = has.folder("pytorch_model_fsdp_"); !chunks.empty())
    return ForeignKind{"a checkpoint of FSDP, whose model lies in chunks", chunks_to_safetensors(path / chunks)};
  if (!has.file("", ".distcp").empty())
    return ForeignKind{"a checkpoint of torch.distributed, in chunks (.distcp)",
                       fs::exists(path / ".metadata")
                           ? chunks_to_safetensors(path)
                           : "copy its .metadata too, which says where the chunks of each tensor lie"};
  if (const std::string file = has.file("", ".gguf"); !file.empty()) return gguf(folder, file);
  if (!has.file("tf_model", ".h5").empty()) return ForeignKind{"a TensorFlow model", to_safetensors(folder, "from_tf")};
  if (!has.file("flax_model", ".msgpack").empty() || !has.file("flax_model", ".msgpack.index.json").empty())
    return ForeignKind{"a Flax model", to_safetensors(folder, "from_flax")};
  if (!has.file("weights", ".npz").empty())
    return ForeignKind{"an MLX model (weights.npz)",
                       std::string(kOrigin) + ", or convert that anew: newer versions of mlx_lm write safetensors"};
  if (!has.file("consolidated.", ".pth").empty())
    return ForeignKind{
        "a model in the files of the original Llama (consolidated.*.pth)",
        fmt::format("let Transformers' script make one: python -m transformers.models.llama.convert_llama_weights_to_hf "
                    "--input_dir {} --output_dir OUT",
                    word)};
  const bool onnx =
      !has.file("", ".onnx").empty() || (!has.folder("onnx").empty() && !Names(path / "onnx").file("", ".onnx").empty());
  if (onnx)
    return ForeignKind{"an ONNX model",
                       std::string("a graph for running alone: take the folder of safetensors that it was exported from")};
  return {};
}

}  // namespace

std::optional<ForeignKind> foreign_kind(const std::string& path) {
  std::error_code error;
  const fs::path p = path;
  if (fs::is_directory(p, error)) return of_folder(p);
  const std::string folder = p.has_parent_path() ? p.parent_path().string() : ".", file = p.filename().string();
  if (file.ends_with(".gguf")) return gguf(folder, file);
  if (file.ends_with(".onnx"))
    return ForeignKind{"an ONNX model", "a graph for running alone: take the folder of safetensors that it was exported from"};
  if (file.ends_with(".h5")) return ForeignKind{"a TensorFlow model", to_safetensors(folder, "from_tf")};
  if (file.ends_with(".msgpack")) return ForeignKind{"a Flax model", to_safetensors(folder, "from_flax")};
  return {};
}

}  // namespace ravine
