// All tensors of a safetensors or torch file, or of a folder of them, by name.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/tensor_file.h"

namespace ravine {

struct PlacedTensor {
  const TensorFile* file = nullptr;  // lives as long as the set
  const TensorInfo* info = nullptr;
  std::span<const std::byte> bytes() const { return file->bytes(*info); }
};

// By the end of the name: .bin, .pt and .pth are files of torch.save, .ckpt of MindSpore, others safetensors.
std::unique_ptr<TensorFile> open_tensor_file(const std::string& path);

// Of a folder, as Transformers looks: model.safetensors; else the files named in model.safetensors.index.json; else, as in
// checkpoints, all its *.safetensors; else pytorch_model*.bin. A missing file, a tensor
// in two files, or one that the index names and its file lacks, is a UserError. Opens every file, reads only headers.
class TensorSet {
 public:
  explicit TensorSet(const std::string& path);
  const std::map<std::string, PlacedTensor>& tensors() const { return tensors_; }
  const std::vector<std::unique_ptr<TensorFile>>& files() const { return files_; }

 private:
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, PlacedTensor> tensors_;
};

}  // namespace ravine
