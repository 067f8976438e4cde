// Hugging Face folders as source and target of conversions.
#pragma once
#include <functional>
#include <string>

#include "io/convert/weights.h"

namespace ravine {

// Every tensor as it is called in the files (with --model-config for a folder without config.json).
Weights read_hf(const std::string& path, const Json& config, const std::string& config_where);

struct NamedElements {
  std::string name;
  ElementsPtr elements;
  DType dtype = DType::f32;  // to be written
};

// Tensors in files of at most `shard_bytes`: one `single` where they fit (if that is not ""), else
// `stem`-0000i-of-0000N.safetensors. Returns tensor -> file. `progress` is called with the bytes written.
std::map<std::string, std::string> write_shards(const std::string& folder, const std::vector<NamedElements>& tensors,
                                                const std::string& single, const std::string& stem, const Metadata& metadata,
                                                const std::function<void(int64_t)>& progress,
                                                int64_t shard_bytes = 5'000'000'000);

// Weights, index, config.json, and what `weights.folder` holds of tokenizer and generation_config.json.
void write_hf(const std::string& folder, const Weights& weights, const std::vector<NamedElements>& tensors,
              const std::function<void(int64_t)>& progress);
void write_config(const std::string& folder, const Weights& weights, const std::vector<NamedElements>& tensors);

}  // namespace ravine
