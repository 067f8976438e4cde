#include "text/tokenizers/settings_file.h"

#include <filesystem>

#include "base/error.h"

namespace ravine {

namespace fs = std::filesystem;

Json read_settings(const std::string& dir, const char* name, std::string& path) {
  path = (fs::path(dir) / name).string();
  std::error_code ec;
  if (!fs::exists(path, ec)) return Json::object();
  Json j = read_json(path);
  if (!j.is_object()) throw UserError("wrong tokenizer settings", path, "it must be a JSON object", "correct the file");
  return j;
}

}  // namespace ravine
