#include "apps/stored_tensors.h"

#include <algorithm>
#include <filesystem>

namespace ravine {

StoredTensors::StoredTensors(const std::string& path) {
  namespace fs = std::filesystem;
  const bool folder = fs::is_directory(path);
  if (folder && is_checkpoint(path) && fs::exists(fs::path(path) / "state-00001.safetensors")) {
    pieces_ = std::make_unique<CheckpointReader>(path, true);
    names_ = pieces_->names();
    std::sort(names_.begin(), names_.end());
    return;
  }
  // A file of one rank, or of a checkpoint: the manifest next to it has its checksums.
  const fs::path folder_path = folder ? fs::path(path) : fs::absolute(path).parent_path();
  if ((folder || fs::path(path).filename().string().starts_with("state-")) && is_checkpoint(folder_path.string()))
    CheckpointReader(folder_path.string(), true);
  set_ = std::make_unique<TensorSet>(path);
  for (const auto& entry : set_->tensors()) names_.push_back(entry.first);
}

bool StoredTensors::has(const std::string& name) const { return set_ ? set_->tensors().count(name) > 0 : pieces_->has(name); }
DType StoredTensors::dtype(const std::string& name) const {
  return set_ ? set_->tensors().at(name).info->dtype : pieces_->dtype(name);
}
const Shape& StoredTensors::shape(const std::string& name) const {
  return set_ ? set_->tensors().at(name).info->shape : pieces_->shape(name);
}

std::span<const std::byte> StoredTensors::bytes(const std::string& name, std::vector<std::byte>& scratch) const {
  if (set_) return set_->tensors().at(name).bytes();
  const Shape& whole = pieces_->shape(name);
  scratch.resize(static_cast<size_t>(whole.count() * size_of(pieces_->dtype(name))));
  pieces_->read(name, view_of(scratch.data(), pieces_->dtype(name), whole), whole, {});
  return scratch;
}

}  // namespace ravine
