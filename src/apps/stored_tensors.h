// The tensors that a command looks at: of a file, of a folder, or of a checkpoint whose tensors lie in pieces in the files of
// many ranks.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "files/tensor_set.h"
#include "io/checkpoint.h"

namespace ravine {

class StoredTensors {
 public:
  // As TensorSet; a checkpoint that several ranks wrote is read through its manifest. What belongs to a checkpoint is
  // compared with its checksums first.
  explicit StoredTensors(const std::string& path);
  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool has(const std::string& name) const;
  DType dtype(const std::string& name) const;
  const Shape& shape(const std::string& name) const;
  // Of the whole tensor; valid until `scratch` changes.
  std::span<const std::byte> bytes(const std::string& name, std::vector<std::byte>& scratch) const;
  const TensorSet* set() const { return set_.get(); }  // null: in pieces

 private:
  std::unique_ptr<TensorSet> set_;
  std::unique_ptr<CheckpointReader> pieces_;
  std::vector<std::string> names_;
};

}  // namespace ravine
