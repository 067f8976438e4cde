#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "files/safetensors.h"

namespace ravine {
namespace {

std::string quoted(const std::string& text) {
  require(find_invalid_utf8(text) == std::string::npos, "SafetensorsWriter: names and metadata are UTF-8, got '{}'",
          printable(text));
  return nlohmann::json(text).dump();
}

}  // namespace

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
  std::string text = "{";
  if (!options_.metadata.empty()) {
    text += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : options_.metadata) {
      text += (first ? "" : ",") + quoted(key) + ":" + quoted(value);
      first = false;
    }
    text += "}";
  }
  for (const TensorInfo& t : tensors_) {
    if (text.size() > 1) text += ",";
    text += quoted(t.name) + fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", file_name(t.dtype),
                                         fmt::join(t.shape.begin(), t.shape.end(), ","), t.begin, t.end);
  }
  text += "}";
  data_begin_ = round_up(8 + static_cast<int64_t>(text.size()), options_.data_alignment);
  text.resize(static_cast<size_t>(data_begin_ - 8), ' ');
  require(static_cast<int64_t>(text.size()) <= kMaxSafetensorsHeader,
          "SafetensorsWriter: the header has at most {} bytes, got {} for {} tensors", kMaxSafetensorsHeader, text.size(),
          tensors_.size());
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  file_.write(length);
  file_.write(text);
  skip_complete();
}

// Moves past tensors whose bytes are all there, empty ones included.
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
