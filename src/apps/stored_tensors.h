// The tensors that a command reads: of a file, of a folder, or of a checkpoint with pieces in the files of many ranks.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "files/tensor_set.h"
#include "io/checkpoint.h"

namespace ravine {

class StoredTensors {
 public:
  // Opens the path like TensorSet; a checkpoint of several ranks is read by its manifest. Files of a checkpoint are
  // compared with their checksums first.
  explicit StoredTensors(const std::string& path);
  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool has(const std::string& name) const;
  DType dtype(const std::string& name) const;
  const Shape& shape(const std::string& name) const;
  // Returns the bytes of the whole tensor `name`. `scratch` may hold them: the result is valid until it changes.
  std::span<const std::byte> bytes(const std::string& name, std::vector<std::byte>& scratch) const;
  const TensorSet* set() const { return set_.get(); }  // null if the tensors are in pieces

 private:
  std::unique_ptr<TensorSet> set_;
  std::unique_ptr<CheckpointReader> pieces_;
  std::vector<std::string> names_;
};

}  // namespace ravine
