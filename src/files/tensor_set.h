// All tensors of a safetensors file, or of a folder of them, by name.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ravine {

struct PlacedTensor {
  const SafetensorsReader* file = nullptr;  // lives as long as the set
  const TensorInfo* info = nullptr;
  std::span<const std::byte> bytes() const { return file->bytes(*info); }
};

// Of a folder, as Transformers looks: model.safetensors; else the files named in model.safetensors.index.json; else, as in
// checkpoints, all its *.safetensors. A missing file, a tensor
// in two files, or one that the index names and its file lacks, is a UserError. Opens every file, reads only headers.
class TensorSet {
 public:
  explicit TensorSet(const std::string& path);
  const std::map<std::string, PlacedTensor>& tensors() const { return tensors_; }
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }

 private:
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, PlacedTensor> tensors_;
};

}  // namespace ravine
