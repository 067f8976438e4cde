#include "base/json.h"

#include <fstream>
#include <sstream>

#include "base/error.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace ravine {

Json parse_json(std::string_view text, const std::string& where) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char ch = text[i];
    if (quoted) {
      if (ch == '\\') ++i;
      if (ch == '"') quoted = false;
    } else if (ch == '"') {
      quoted = true;
    } else if (ch == '[' || ch == '{') {
      if (++depth > 64) throw UserError("JSON is nested too deeply", where, "at most 64 levels", "check that this is the file you meant");
    } else if (ch == ']' || ch == '}') {
      --depth;
    }
  }
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    std::string why = e.what();
    if (size_t at = why.find("] "); at != std::string::npos) why = why.substr(at + 2);
    throw UserError("not valid JSON", where, why, "repair or replace the file");
  }
}

Json read_json(const std::string& path, int64_t limit) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("cannot open file", path, "it must exist and be readable", "check the path");
  in.seekg(0, std::ios::end);
  int64_t size = in.tellg();
  if (size < 0 || size > limit)
    throw UserError("JSON file is too large", path, fmt::format("{} bytes, at most {}", size, limit), "check that this is the file you meant");
  std::string text(static_cast<size_t>(size), '\0');
  in.seekg(0);
  in.read(text.data(), size);
  if (!in) throw UserError("cannot read file", path, "it must be a readable regular file", "check the path");
  return parse_json(text, path);
}

}  // namespace ravine
