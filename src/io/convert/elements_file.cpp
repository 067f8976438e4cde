#include "io/convert/elements_file.h"

#include <algorithm>

namespace ravine {

ElementsFile::ElementsFile(std::string path, std::map<std::string, ElementsPtr> tensors)
    : path_(std::move(path)), elements_(std::move(tensors)) {
  int64_t at = 0;
  for (const auto& [name, e] : elements_) {
    const int64_t bytes = e->count() * size_of(e->dtype());
    infos_.push_back({name, e->dtype(), e->shape(), at, at + bytes});
    at += bytes;
  }
}

const TensorInfo* ElementsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(infos_.begin(), infos_.end(), name, [](const TensorInfo& t, std::string_view n) { return t.name < n; });
  return at != infos_.end() && at->name == name ? &*at : nullptr;
}

std::span<const std::byte> ElementsFile::bytes(const TensorInfo& tensor) const {
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = kept_.try_emplace(tensor.name);
  if (fresh) {
    at->second.resize(static_cast<size_t>(tensor.end - tensor.begin));
    read(tensor, 0, at->second);
  }
  return at->second;
}

void ElementsFile::read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> into) const {
  elements_.at(tensor.name)->read(offset / size_of(tensor.dtype), into);
}

ElementsPtr elements_of(const std::shared_ptr<const TensorFile>& file, const TensorInfo& tensor) {
  const auto* made = dynamic_cast<const ElementsFile*>(file.get());
  return made ? made->elements(tensor) : stored(file, tensor);
}

}  // namespace ravine
