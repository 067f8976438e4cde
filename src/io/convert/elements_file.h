// Presents lazy tensors (elements.h) as a tensor file.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "io/convert/elements.h"

namespace ravine {

class ElementsFile : public TensorFile {
 public:
  ElementsFile(std::string path, std::map<std::string, ElementsPtr> tensors);  // path: for messages
  const std::string& path() const override { return path_; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  const TensorInfo* find(std::string_view name) const override;
  std::span<const std::byte> bytes(const TensorInfo& tensor) const override;  // read at the first call, and kept
  void read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> into) const override;
  const ElementsPtr& elements(const TensorInfo& tensor) const { return elements_.at(tensor.name); }

 private:
  std::string path_;
  std::map<std::string, ElementsPtr> elements_;
  std::vector<TensorInfo> infos_;  // ordered by name
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<std::byte>> kept_;
};

// Returns a tensor of any file as lazy elements; for an ElementsFile, the lazy tensor itself.
ElementsPtr elements_of(const std::shared_ptr<const TensorFile>& file, const TensorInfo& tensor);

}  // namespace ravine
