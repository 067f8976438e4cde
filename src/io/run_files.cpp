#include "io/run_files.h"

#include <filesystem>

#include "config/load.h"
#include "config/yaml.h"
#include "files/compressed.h"

namespace ravine {
namespace {

constexpr int64_t kNoteBytes = 4096;

}  // namespace

Json read_run_json(const std::string& file, int64_t limit) { return parse_json(read_whole(file, limit), file); }

Config read_run_config(const std::string& file) { return parse_config(read_whole(file, kYamlBytes), file); }

ExportedNote read_exported(const std::string& run) {
  const std::string file = (std::filesystem::path(run) / "exported").string();
  if (std::error_code error; !std::filesystem::exists(file, error)) return {};
  const std::string text = read_whole(file, kNoteBytes), line = text.substr(0, text.find('\n'));
  const size_t blank = line.find(' ');
  return {line.substr(0, blank), blank == std::string::npos ? "" : line.substr(blank + 1)};
}

}  // namespace ravine
