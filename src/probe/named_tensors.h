// Tensors that are known by their names alone: of a safetensors file (`ravine trace`), or of a folder of .npy files, by their
// paths in it without the ending.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ravine {

bool is_npy_folder(const std::string& path);  // a file *.npy in it, or in a folder of it, at most 8 deep

class NamedTensors {
 public:
  explicit NamedTensors(const std::string& path);
  // Of a folder in the order of their names, numbers in these as numbers.
  const std::vector<TensorInfo>& tensors() const { return file_ ? file_->tensors() : infos_; }
  const TensorInfo* find(const std::string& name) const;  // null: none
  std::vector<std::byte> bytes(const TensorInfo& tensor) const;

 private:
  std::string path_;
  std::unique_ptr<SafetensorsReader> file_;
  std::vector<TensorInfo> infos_;
};

}  // namespace ravine
