#include "data/source.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace ravine {

namespace fs = std::filesystem;

namespace {

std::string without_compression(std::string path) {
  for (const char* suffix : {".gz", ".zst", ".xz"})
    if (path.ends_with(suffix)) return path.substr(0, path.size() - std::string_view(suffix).size());
  return path;
}

bool is_text(const std::string& path) {
  std::string plain = without_compression(path);
  return plain.ends_with(".txt") || plain.ends_with(".jsonl");
}

}  // namespace

SourceKind source_kind(const std::string& path) {
  std::string plain = without_compression(path);
  if (plain.ends_with(".txt")) return SourceKind::text;
  if (plain.ends_with(".jsonl")) return SourceKind::jsonl;
  if (path.ends_with(".safetensors")) return SourceKind::fixed;
  for (const char* later : {".json", ".csv", ".parquet", ".bin", ".idx"})
    if (plain.ends_with(later))
      throw UserError("this kind of data is not read yet", path, fmt::format("{} comes with a later release", later),
                      "give .txt, .jsonl (also .gz, .zst, .xz) or a fixed batch file .safetensors");
  throw UserError("unknown kind of data", path, "the suffix must be .txt, .jsonl (also .gz, .zst, .xz) or .safetensors",
                  "rename the file");
}

std::vector<std::string> source_files(const std::string& path) {
  std::error_code ec;
  std::vector<std::string> files;
  if (fs::is_directory(path, ec)) {
    for (auto it = fs::recursive_directory_iterator(path, ec); !ec && it != fs::recursive_directory_iterator();
         it.increment(ec))
      if (it->is_regular_file(ec) && is_text(it->path().string())) files.push_back(it->path().string());
    if (ec) throw UserError("cannot read folder", path, ec.message(), "check its permissions");
    if (files.empty())
      throw UserError("no data in folder", path, "it must hold .txt or .jsonl files (also .gz, .zst, .xz)",
                      "name another folder or the files themselves");
    std::sort(files.begin(), files.end());
    return files;
  }
  if (fs::exists(path, ec)) return {path};
  if (path.find_first_of("*?[") != std::string::npos) {
    glob_t found{};
    if (glob(path.c_str(), 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i)
        if (!fs::is_directory(found.gl_pathv[i], ec)) files.emplace_back(found.gl_pathv[i]);
    globfree(&found);
    if (!files.empty()) return files;
    throw UserError("no data", path, "no file has a name of this pattern", "check the path");
  }
  throw UserError("no such data", path, "it must be a file, a folder or a pattern that names files", "check the path");
}

}  // namespace ravine
