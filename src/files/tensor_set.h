// All tensors by name: of a safetensors, torch or MindSpore file, or of a folder of such files.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/tensor_file.h"

namespace ravine {

// A tensor and the file that holds it.
struct PlacedTensor {
  const TensorFile* file = nullptr;  // owned by the TensorSet
  const TensorInfo* info = nullptr;
  std::span<const std::byte> bytes() const { return file->bytes(*info); }
};

// Opens a file by the end of its name: .bin, .pt, .pth (torch.save), .ckpt (MindSpore), else safetensors.
std::unique_ptr<TensorFile> open_tensor_file(const std::string& path);

// The tensors of a file or a folder. Opens every file, reads headers only. In a folder, the first of these is used:
// - model.safetensors;
// - the files named in model.safetensors.index.json;
// - all *.safetensors, as in checkpoints;
// - all pytorch_model*.bin.
// Transformers uses the same order. UserError: a missing file, a tensor in two files, or one that its file lacks.
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
