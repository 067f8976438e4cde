#include "data/preprocess_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/source.h"
#include "files/atomic.h"

namespace ravine {

namespace {

constexpr int kVersion = 1;

// Returns the option that differs between two settings of preprocess. Settings are words in this order, then lists with
// their types (text:uint16).
std::string what_differs(const std::string& was, const std::string& now) {
  static constexpr const char* kWords[] = {"tokenizer",    "tokenizer",    "--split-by-document", "--strict",      "--handler",
                                           "--append-eod", "--seq-length", "--template",          "--load-dataset"};
  const std::vector<std::string> a = split(was, ' '), b = split(now, ' ');
  for (size_t i = 0; i < std::min({a.size(), b.size(), std::size(kWords)}); ++i)
    if (a[i] != b[i] && (a[i] + b[i]).find(':') == std::string::npos) return kWords[i];
  return "--json-keys or --dtype";
}

}  // namespace

InputFile input_file(const std::string& path) {
  struct stat s;
  if (::stat(path.c_str(), &s) != 0) throw_system("open file", path, errno);
  return {path, s.st_size, s.st_mtim.tv_sec * int64_t{1'000'000'000} + s.st_mtim.tv_nsec};
}

std::vector<InputFile> list_inputs(const std::vector<std::string>& inputs) {
  std::vector<InputFile> files;
  for (const std::string& input : inputs)
    for (const std::string& path : source_files(input)) files.push_back(input_file(path));
  return files;
}

void PreprocessState::save(const std::string& folder) const {
  Json list = Json::array(), positions = Json::array();
  for (const InputFile& f : files) list.push_back({f.path, f.size, f.modified});
  for (const auto& p : lists) positions.push_back({p.bin, p.lengths, p.documents});
  const Json j{{"version", kVersion},
               {"settings", settings},
               {"files", list},
               {"file", file},
               {"record", record},
               {"lists", positions},
               {"records", report.records},
               {"left_out", report.left_out},
               {"first", report.first},
               {"repaired", report.repaired},
               {"first_repaired", report.first_repaired},
               {"written", written}};
  write_file_atomic(folder + "/state.json", j.dump(1, ' ', true, Json::error_handler_t::replace));
}

std::optional<std::vector<std::string>> PreprocessState::lists_in(const std::string& folder) {
  const std::string path = folder + "/state.json";
  std::error_code ec;
  if (std::filesystem::symlink_status(path, ec).type() != std::filesystem::file_type::regular) return {};
  try {
    const Json j = read_json(path);
    std::string settings = j.at("settings").get<std::string>();
    if (!j.at("version").is_number_integer() || !j.at("files").is_array() || !j.at("record").is_number_integer() ||
        !j.at("written").is_boolean())
      return {};
    std::vector<std::string> names;
    for (size_t left = j.at("lists").get<std::vector<Json>>().size(); left > 0; --left) {
      const size_t space = settings.rfind(' '), colon = settings.rfind(':');
      if (space == std::string::npos || colon == std::string::npos || colon < space) return {};
      names.push_back(settings.substr(space + 1, colon - space - 1));
      settings.resize(space);
    }
    return names;
  } catch (const std::exception&) {
    return {};
  }
}

bool PreprocessState::load(const std::string& folder, const std::string& settings, const std::vector<InputFile>& files,
                           size_t lists, PreprocessState* state) {
  const std::string path = folder + "/state.json";
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return false;
  auto refuse = [&](const std::string& rule) {
    throw UserError("an earlier run cannot be resumed", folder, rule,
                    "begin anew with --restart, or choose another --output-prefix");
  };
  PreprocessState s;
  try {
    const Json j = read_json(path);
    if (j.at("version") != kVersion) refuse("it is of another version of the program");
    s.settings = j.at("settings");
    for (const Json& f : j.at("files")) s.files.push_back({f.at(0), f.at(1), f.at(2)});
    s.file = j.at("file");
    s.record = j.at("record");
    for (const Json& p : j.at("lists")) s.lists.push_back({p.at(0), p.at(1), p.at(2), 0});
    s.report.records = j.at("records");
    s.report.left_out = j.at("left_out").get<std::map<std::string, int64_t>>();
    s.report.first = j.at("first").get<std::map<std::string, std::string>>();
    s.report.repaired = j.at("repaired");
    s.report.first_repaired = j.at("first_repaired");
    s.written = j.at("written");
  } catch (const Json::exception&) {
    refuse("its state.json is damaged");
  }
  if (s.report.records == 0 && !s.written) return false;  // a new start loses nothing
  if (s.settings != settings) refuse(fmt::format("it had another {}", what_differs(s.settings, settings)));
  if (s.lists.size() != lists || s.file < 0 || s.record < 0 || s.file > static_cast<int64_t>(s.files.size()))
    refuse("its state.json is damaged");
  for (const auto& p : s.lists)
    if (p.bin < 0 || p.lengths < 0 || p.lengths % 4 != 0 || p.documents < 0 || p.documents % 8 != 0)
      refuse("its state.json is damaged");
  // Files that were not begun may have changed.
  for (size_t i = 0; i < s.files.size() && static_cast<int64_t>(i) <= s.file; ++i) {
    const bool same = i < files.size() && files[i].path == s.files[i].path && files[i].size == s.files[i].size &&
                      files[i].modified == s.files[i].modified;
    if (!same) refuse(fmt::format("{} has changed since, or is not the same place among the inputs", s.files[i].path));
  }
  s.files = files;
  *state = std::move(s);
  return true;
}

}  // namespace ravine
