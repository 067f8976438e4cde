#include "config/named_path.h"

#include <filesystem>

#include "config/option.h"

namespace ravine {

NamedPath named_path(const std::string& text) {
  const size_t equals = text.find('=');
  std::error_code error;
  if (equals == std::string::npos || std::filesystem::exists(text, error)) return {"", text};
  const std::string path = text.substr(equals + 1);
  return {text.substr(0, equals), with_home(path).value_or(path)};
}

}  // namespace ravine
