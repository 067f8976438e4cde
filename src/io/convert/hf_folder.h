// Reads and writes Hugging Face folders in conversions.
#pragma once
#include <functional>
#include <string>

#include "files/safetensors.h"
#include "io/convert/target_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// Reads every tensor under its name in the files. `config` is needed for a folder without config.json (--model-config).
Weights read_hf(const std::string& path, const Json& config, const std::string& config_where);

struct NamedElements {
  std::string name;
  ElementsPtr elements;
  DType dtype = DType::f32;  // type in the written file
};

// Writes tensors to files of at most kShardBytes each. The file is `single` if all fit into one and `single` is not "",
// else `stem`-0000i-of-0000N.safetensors. Files that the folder already has are skipped. Returns tensor -> file.
// `progress` is called with the bytes written.
inline constexpr int64_t kShardBytes = 5'000'000'000;
std::map<std::string, std::string> write_shards(TargetFolder& folder, const std::vector<NamedElements>& tensors,
                                                const std::string& single, const std::string& stem, const Metadata& metadata,
                                                const std::function<void(int64_t)>& progress);
// Writes one file of weights, unless the folder already has it.
void write_weight_file(TargetFolder& folder, const std::string& file, const std::vector<const NamedElements*>& tensors,
                       const Metadata& metadata, const std::function<void(int64_t)>& progress);

// Writes weights, index, config.json, and the tokenizer and generation_config.json found in `weights.folder` and
// `weights.tokenizer`.
void write_hf(TargetFolder& folder, const Weights& weights, const std::vector<NamedElements>& tensors,
              const std::function<void(int64_t)>& progress);
// The two functions below write parts of it.
void write_config(TargetFolder& folder, const Weights& weights, const std::vector<NamedElements>& tensors);
void copy_beside(TargetFolder& folder, const Weights& weights);  // tokenizer, generation_config.json

}  // namespace ravine
