#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "files/safetensors.h"

namespace ravine {
namespace {

std::string quoted(const std::string& text) {
  require(find_invalid_utf8(text) == std::string::npos, "safetensors_header: names and metadata are UTF-8, got '{}'",
          printable(text));
  return nlohmann::json(text).dump();
}

}  // namespace

std::string safetensors_header(const std::vector<TensorInfo>& tensors, const Metadata& metadata, int64_t alignment) {
  std::string text(8, '\0');
  text += "{";
  std::string_view comma = "";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", comma, quoted(key), quoted(value));
      comma = ",";
    }
    text += "}";
  }
  for (const TensorInfo& t : tensors) {
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", comma, quoted(t.name),
                        file_name(t.dtype), fmt::join(t.shape.begin(), t.shape.end(), ","), t.begin, t.end);
    comma = ",";
  }
  text += "}";
  text.resize(static_cast<size_t>(round_up(static_cast<int64_t>(text.size()), alignment)), ' ');
  const size_t length = text.size() - 8;
  require(static_cast<int64_t>(length) <= kMaxSafetensorsHeader,
          "safetensors_header: the header has at most {} bytes, got {} for {} tensors", kMaxSafetensorsHeader, length,
          tensors.size());
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(length >> (8 * i));
  return text;
}

SafetensorsWriter::SafetensorsWriter(std::string path, SafetensorsOptions options)
    : file_(std::move(path), options.straight), options_(std::move(options)) {
  const int64_t a = options_.data_alignment;
  require(a >= 8 && a <= 65536 && (a & (a - 1)) == 0,
          "SafetensorsWriter: data_alignment is a power of two in 8 .. 65536, got {}", a);
}

void SafetensorsWriter::declare(const std::string& name, DType dtype, const Shape& shape) {
  require(data_begin_ < 0, "SafetensorsWriter::declare: all tensors come before the first write, got '{}'", name);
  require(name != "__metadata__", "SafetensorsWriter::declare: the name '{}' is reserved", name);
  require(by_name_.emplace(name, tensors_.size()).second, "SafetensorsWriter::declare: names are unique, got '{}' twice", name);
  const int64_t begin = tensors_.empty() ? 0 : tensors_.back().end;
  tensors_.push_back({name, dtype, shape, begin, add_checked(begin, mul_checked(shape.count(), size_of(dtype)))});
  sums_.push_back(0);
}

void SafetensorsWriter::write_header() {
  const std::string header = safetensors_header(tensors_, options_.metadata, options_.data_alignment);
  data_begin_ = static_cast<int64_t>(header.size());
  file_.write(header);
  skip_complete();
}

// Moves past tensors that are complete, empty tensors included.
void SafetensorsWriter::skip_complete() {
  while (current_ < tensors_.size() && written_ == tensors_[current_].end) {
    sums_[current_++] = running_.value();
    running_.reset();
  }
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (data_begin_ < 0) write_header();
  const int64_t total = tensors_.empty() ? 0 : tensors_.back().end;
  require(static_cast<int64_t>(bytes.size()) <= total - written_,
          "SafetensorsWriter::append: '{}' has {} bytes left to write, got {}", file_.path(), total - written_, bytes.size());
  file_.write(bytes);
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), static_cast<size_t>(tensors_[current_].end - written_));
    running_.update(bytes.first(n));
    written_ += static_cast<int64_t>(n);
    bytes = bytes.subspan(n);
    skip_complete();
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (data_begin_ < 0) write_header();
  auto it = by_name_.find(std::string(name));
  require(it != by_name_.end(), "SafetensorsWriter::write: every tensor is declared, got '{}'", name);
  const TensorInfo& t = tensors_[it->second];
  if (bytes.empty() && t.begin == t.end) return;
  require(it->second == current_, "SafetensorsWriter::write: data comes in declared order, '{}' is next, got '{}'",
          current_ < tensors_.size() ? tensors_[current_].name : "(none)", name);
  require(static_cast<int64_t>(bytes.size()) <= t.end - written_,
          "SafetensorsWriter::write: '{}' has {} bytes left to write, got {}", name, t.end - written_, bytes.size());
  append(bytes);
}

void SafetensorsWriter::commit(const MayReplace& check) {
  if (data_begin_ < 0) write_header();
  require(current_ == tensors_.size(), "SafetensorsWriter::commit: '{}' must be complete",
          current_ < tensors_.size() ? tensors_[current_].name : "");
  file_.commit(check);
}

int64_t SafetensorsWriter::file_size() const { return data_begin_ + (tensors_.empty() ? 0 : tensors_.back().end); }

uint64_t SafetensorsWriter::checksum(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  require(it != by_name_.end() && it->second < current_, "SafetensorsWriter::checksum: '{}' must be complete", name);
  return sums_[it->second];
}

void save_safetensors(const std::string& path, const std::vector<TensorBytes>& tensors, const SafetensorsOptions& options,
                      const MayReplace& check) {
  SafetensorsWriter writer(path, options);
  for (const TensorBytes& t : tensors) writer.declare(t.name, t.dtype, t.shape);
  for (const TensorBytes& t : tensors) {
    const TensorInfo& info = writer.tensors()[static_cast<size_t>(&t - tensors.data())];
    require(static_cast<int64_t>(t.bytes.size()) == info.end - info.begin,
            "save_safetensors: '{}' of shape {} has {} bytes, got {}", t.name, t.shape.text(), info.end - info.begin,
            t.bytes.size());
    writer.write(t.name, t.bytes);
  }
  writer.commit(check);
}

}  // namespace ravine
