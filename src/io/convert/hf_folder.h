// Reads and writes Hugging Face folders in conversions.
#pragma once
#include <functional>
#include <string>

#include "files/safetensors.h"
#include "io/convert/target_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// Reads every tensor of a Hugging Face folder under its name in the files. `config` is needed for a folder without
// config.json (--model-config).
Weights read_hf(const std::string& path, const Json& config, const std::string& config_where);

// A tensor to write: its name and type in the file, and its elements.
struct NamedElements {
  std::string name;
  ElementsPtr elements;
  DType dtype = DType::f32;  // type in the written file
};

// The most bytes of tensors in a file of write_shards.
inline constexpr int64_t kShardBytes = 5'000'000'000;
// Writes tensors to files of at most kShardBytes each. The file is `single` if all fit into one and `single` is not "",
// else `stem`-0000i-of-0000N.safetensors. Files that the folder already has are skipped. Returns the file of each
// tensor by its name. `progress` is called with the bytes written.
std::map<std::string, std::string> write_shards(TargetFolder& folder, const std::vector<NamedElements>& tensors,
                                                const std::string& single, const std::string& stem, const Metadata& metadata,
                                                const std::function<void(int64_t)>& progress);
// Writes one file of weights, unless the folder already has it.
void write_weight_file(TargetFolder& folder, const std::string& file, const std::vector<const NamedElements*>& tensors,
                       const Metadata& metadata, const std::function<void(int64_t)>& progress);

// Writes a Hugging Face folder: the weights `tensors`, their index, config.json, and the tokenizer and
// generation_config.json found in `weights.folder` and `weights.tokenizer`.
void write_hf(TargetFolder& folder, const Weights& weights, const std::vector<NamedElements>& tensors,
              const std::function<void(int64_t)>& progress);
// Writes the config.json of a Hugging Face folder, with the type of its tensors; a part of write_hf.
void write_config(TargetFolder& folder, const Weights& weights, const std::vector<NamedElements>& tensors);
void copy_companion_files(TargetFolder& folder, const Weights& weights);  // copies tokenizer and generation_config.json

}  // namespace ravine
