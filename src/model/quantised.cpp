#include "model/quantised.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/shell_word.h"
#include "base/text.h"

namespace ravine {
namespace {

// A quantisation method, and the way back to 16 bits: Transformers (with its config class), PreTrainedModel.dequantize,
// or none.
struct Method {
  std::string_view name, shown, config_class;
  bool dequantize = false;
};
constexpr Method kMethods[] = {
    {"gptq", "GPTQ", ""},
    {"awq", "AWQ", ""},
    {"auto-round", "AutoRound", ""},
    {"bitsandbytes", "bitsandbytes", "", true},
    {"higgs", "HIGGS", "", true},
    {"bitnet", "BitNet", "", true},
    {"fp8", "blocks of 8-bit floats (fp8)", "FineGrainedFP8Config(dequantize=True)"},
    {"mxfp4", "MXFP4", "Mxfp4Config(dequantize=True)"},
    {"compressed-tensors", "compressed-tensors", "CompressedTensorsConfig(run_compressed=False)"},
};

std::string folder_in_command(const std::string& where) {
  const std::filesystem::path file = where;
  if (file.filename() != "config.json") return "DIR";
  return file.has_parent_path() ? shell_word(file.parent_path().string()) : ".";
}

constexpr const char* kOrigin = "take the model in 16 bits that it was made from (its README.md names it as base_model)";

std::string in_python(const std::string& more, const std::string& opened, const std::string& behind) {
  return fmt::format(
      "make one in 16 bits: python -c \"from transformers import AutoModelForCausalLM as M{}; {}{}.save_pretrained('OUT')\"; or {}",
      more, opened, behind, kOrigin);
}

std::string bits_of(const Json& q) {
  for (const char* key : {"bits", "w_bit", "wbits"})
    if (const auto it = q.find(key); it != q.end() && it->is_number_integer()) return fmt::format(" in {} bits", it->dump());
  const auto on = [&](const char* key) {
    const auto it = q.find(key);
    return it != q.end() && it->is_boolean() && it->get<bool>();
  };
  return on("load_in_4bit") || on("_load_in_4bit")   ? " in 4 bits"
         : on("load_in_8bit") || on("_load_in_8bit") ? " in 8 bits"
                                                     : "";
}

std::string fix_of(const std::string& method, const std::string& folder) {
  for (const Method& m : kMethods) {
    if (m.name != method) continue;
    const std::string name(m.config_class.substr(0, m.config_class.find('(')));
    if (m.dequantize) return in_python("", fmt::format("M.from_pretrained('{}')", folder), ".dequantize()");
    if (!name.empty())
      return in_python(", " + name, fmt::format("M.from_pretrained('{}', quantization_config={})", folder, m.config_class), "");
  }
  return kOrigin;
}

std::string shown_name(const std::string& method) {
  for (const Method& m : kMethods)
    if (m.name == method) return std::string(m.shown);
  return method.empty() ? "a method that it does not name" : escaped(method.substr(0, 80));
}

}  // namespace

std::optional<Quantised> quantised(const Json& config, const std::string& where) {
  if (!config.is_object()) return {};
  const std::string folder = folder_in_command(where);
  const auto of = config.find("quantization_config"), mlx = config.find("quantization");
  const bool is_mlx = mlx != config.end() && mlx->is_object() && mlx->contains("group_size") && mlx->contains("bits");
  if (is_mlx)
    return Quantised{
        "quantization", fmt::format("weights{} by MLX", bits_of(*mlx)),
        fmt::format("make one in 16 bits: python -m mlx_lm.convert --hf-path {} --mlx-path OUT -d; or {}", folder, kOrigin)};
  if (of == config.end() || !of->is_object()) return {};
  std::string method;
  if (const auto it = of->find("quant_method"); it != of->end() && it->is_string()) method = it->get<std::string>();
  if (method.empty() && (of->contains("load_in_4bit") || of->contains("load_in_8bit"))) method = "bitsandbytes";
  return Quantised{"quantization_config", fmt::format("weights{} by {}", bits_of(*of), shown_name(method)),
                   fix_of(method, folder)};
}

}  // namespace ravine
