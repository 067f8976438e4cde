#include "files/tensor_file.h"

#include "base/cut_text.h"
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
  const std::string_view begin = cut_text(name, 120);
  return escaped(begin) + (begin.size() < name.size() ? "..." : "");
}

}  // namespace ravine
