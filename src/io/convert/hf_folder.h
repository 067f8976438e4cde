// Hugging Face folders as source and target of conversions.
#pragma once
#include <functional>
#include <string>

#include "files/safetensors.h"
#include "io/convert/target_folder.h"
#include "io/convert/weights.h"

namespace ravine {

// Every tensor as it is called in the files (with --model-config for a folder without config.json).
Weights read_hf(const std::string& path, const Json& config, const std::string& config_where);

struct NamedElements {
  std::string name;
  ElementsPtr elements;
  DType dtype = DType::f32;  // to be written
};

// Tensors in files of at most `shard_bytes` below `prefix`: one `single` where they fit (if that is not ""), else
// `stem`-0000i-of-0000N.safetensors. Files that the folder has already are passed over. Returns tensor -> file. `progress` is
// called with the bytes written.
inline constexpr int64_t kShardBytes = 5'000'000'000;
std::map<std::string, std::string> write_shards(TargetFolder& folder, const std::vector<NamedElements>& tensors,
                                                const std::string& single, const std::string& stem, const Metadata& metadata,
                                                const std::function<void(int64_t)>& progress);
// One file of them.
void write_weight_file(TargetFolder& folder, const std::string& file, const std::vector<const NamedElements*>& tensors,
                       const Metadata& metadata, const std::function<void(int64_t)>& progress);

// Weights, index, config.json, and what `weights.folder` and `weights.tokenizer` hold of tokenizer and generation_config.json.
void write_hf(TargetFolder& folder, const Weights& weights, const std::vector<NamedElements>& tensors,
              const std::function<void(int64_t)>& progress);
// The parts of it.
void write_config(TargetFolder& folder, const Weights& weights, const std::vector<NamedElements>& tensors);
void copy_beside(TargetFolder& folder, const Weights& weights);  // tokenizer, generation_config.json

}  // namespace ravine
