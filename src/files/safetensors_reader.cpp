#include <cerrno>

#include "base/text.h"
#include "files/safetensors.h"

namespace ravine {

SafetensorsReader::SafetensorsReader(std::string path) : path_(std::move(path)) {
  fd_ = open_to_read(path_, &file_size_);
  mapped_ = MappedFile(path_, fd_, file_size_, MappedFile::Use::any);
  map_ = mapped_.bytes().data();
  header_ = parse_safetensors_header({map_, static_cast<size_t>(file_size_)}, file_size_, path_);
  by_name_.reserve(header_.tensors.size());
  for (size_t i = 0; i < header_.tensors.size(); ++i) by_name_.emplace(header_.tensors[i].name, i);
}

SafetensorsReader::~SafetensorsReader() = default;

const TensorInfo* SafetensorsReader::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &header_.tensors[it->second];
}

const TensorInfo& SafetensorsReader::tensor(std::string_view name) const {
  if (const TensorInfo* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const TensorInfo& t : header_.tensors) names.push_back(t.name);
  const std::string near = nearest(name, names);
  throw UserError("missing tensor", fmt::format("{}: tensor '{}'", path_, printable(name)),
                  names.size() == 1 ? fmt::format("the file holds '{}' only", printable(names[0]))
                                    : fmt::format("the file holds {} others", names.size()),
                  near.empty() ? "use the file that has it" : fmt::format("did you mean '{}'?", printable(near)));
}

std::span<const std::byte> SafetensorsReader::bytes(const TensorInfo& t) const {
  return {map_ + header_.data_begin + t.begin, static_cast<size_t>(t.end - t.begin)};
}

void SafetensorsReader::read(const TensorInfo& t, int64_t offset, std::span<std::byte> into) const {
  const int64_t size = static_cast<int64_t>(into.size());
  require(offset >= 0 && offset <= t.end - t.begin && size <= t.end - t.begin - offset,
          "SafetensorsReader::read: '{}' of '{}' has {} bytes, got offset {} and size {}", printable(t.name), path_,
          t.end - t.begin, offset, size);
  read_all_at(*fd_, header_.data_begin + t.begin + offset, into, path_);
}

}  // namespace ravine
