#include "files/tensor_file.h"

namespace ravine {

const Metadata& TensorFile::metadata() const {
  static const Metadata none;
  return none;
}

std::string tensor_at(const std::string& path, std::string_view tensor) {
  return fmt::format("{}: tensor '{}'", path, printable(tensor));
}

std::string printable(std::string_view name) {
  std::string shown;
  for (char c : name.substr(0, 120)) shown += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  // Not to end inside a UTF-8 sequence.
  if (name.size() > 120) {
    while (!shown.empty() && (shown.back() & 0xc0) == 0x80) shown.pop_back();
    if (!shown.empty() && (shown.back() & 0x80)) shown.pop_back();
    shown += "...";
  }
  return shown;
}

}  // namespace ravine
