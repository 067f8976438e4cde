// Tensors identified by name only: of a safetensors file (`ravine trace`), or of a folder of .npy files, named by their
// paths without extension.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ravine {

// True if the path is a folder with a file *.npy in it or in its subfolders, at most 8 levels deep.
bool is_npy_folder(const std::string& path);

// The tensors of a safetensors file, or of a folder of .npy files, by name.
class NamedTensors {
 public:
  explicit NamedTensors(const std::string& path);
  // Returns all tensors: of a file in its order, of a folder in the order of their names. Numbers in names are compared
  // as numbers.
  const std::vector<TensorInfo>& tensors() const { return file_ ? file_->tensors() : infos_; }
  const TensorInfo* find(const std::string& name) const;  // returns the tensor of this name; null if there is none
  std::vector<std::byte> bytes(const TensorInfo& tensor) const;

 private:
  std::string path_;
  std::unique_ptr<SafetensorsReader> file_;
  std::vector<TensorInfo> infos_;
};

}  // namespace ravine
