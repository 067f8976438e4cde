// Tensors identified by name only: of a safetensors file (`ravine trace`), or of a folder of .npy files, named by their
// paths without extension.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ravine {

bool is_npy_folder(const std::string& path);  // true if a file *.npy is in the folder or below, at most 8 deep

// The tensors of a file or folder.
class NamedTensors {
 public:
  explicit NamedTensors(const std::string& path);
  // Returns the tensors; of a folder in the order of names, with numbers in names compared as numbers.
  const std::vector<TensorInfo>& tensors() const { return file_ ? file_->tensors() : infos_; }
  const TensorInfo* find(const std::string& name) const;  // null: there is none
  std::vector<std::byte> bytes(const TensorInfo& tensor) const;

 private:
  std::string path_;
  std::unique_ptr<SafetensorsReader> file_;
  std::vector<TensorInfo> infos_;
};

}  // namespace ravine
