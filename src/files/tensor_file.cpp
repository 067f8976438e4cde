#include "files/tensor_file.h"

#include "base/text.h"

namespace ravine {

const Metadata& TensorFile::metadata() const {
  static const Metadata none;
  return none;
}

std::string tensor_at(const std::string& path, std::string_view tensor) {
  return fmt::format("{}: tensor '{}'", path, printable(tensor));
}

std::string printable(std::string_view name) {
  if (name.size() <= 120) return escaped(name);
  size_t end = 120;  // not inside a UTF-8 sequence
  while (end > 117 && (name[end] & 0xc0) == 0x80) --end;
  return escaped(name.substr(0, end)) + "...";
}

}  // namespace ravine
