// Finds the files of a split in a local folder: by the configurations of a card, as a saved dataset, or by file names.
#include "data/hf_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/missing_path.h"
#include "base/read_text.h"
#include "base/text.h"
#include "config/yaml.h"
#include "config/yaml_json.h"
#include "data/records/open_records.h"
#include "data/source.h"

namespace ravine {

namespace fs = std::filesystem;

namespace {

using Files = std::vector<std::string>;
// In the order of `datasets`: train, validation, test, others.
using Splits = std::vector<std::pair<std::string, Files>>;

constexpr const char* kReaders[] = {"json", "csv", "text", "parquet", "arrow"};

struct Keywords {
  const char* split;
  std::vector<const char*> words;
};
const std::vector<Keywords>& keywords() {
  static const std::vector<Keywords> all{{"train", {"train", "training"}},
                                         {"validation", {"validation", "valid", "dev", "val"}},
                                         {"test", {"test", "testing", "eval", "evaluation"}}};
  return all;
}

bool is_between(char c) { return std::string_view("-._ 0123456789").find(c) != std::string_view::npos; }

// True if the word is in the name, between separators. at_end: the end of the name is accepted as a separator.
bool has_word(std::string_view name, std::string_view word, bool at_end) {
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || is_between(name[at - 1])) && (end == name.size() ? at_end : is_between(name[end]))) return true;
  }
  return false;
}

std::vector<std::string> folders_of(const std::string& relative) {
  std::vector<std::string> parts = split(relative, '/');
  parts.pop_back();
  return parts;
}

// Returns the split of a file "data/SPLIT-00000-of-00002.parquet"; empty if the file has another name.
std::string sharded_split(const std::string& relative) {
  if (!relative.starts_with("data/") || relative.find('/', 5) != std::string::npos) return "";
  const std::string name = relative.substr(5);
  for (size_t at = name.find('-'); at != std::string::npos; at = name.find('-', at + 1))
    if (fits_pattern("-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*", name.substr(at))) return name.substr(0, at);
  return "";
}

std::string extension_of(std::string path) {
  for (const char* packed : {".gz", ".zst", ".xz"})
    if (path.ends_with(packed)) path.resize(path.size() - std::string_view(packed).size());
  return fs::path(path).extension().string();
}

// Returns the reader of a file by its suffix; empty: none.
std::string reader_of(const std::string& path) {
  const std::string e = extension_of(path);
  if (e == ".json" || e == ".jsonl") return "json";
  if (e == ".txt") return "text";
  if (e == ".csv" || e == ".parquet" || e == ".arrow") return e.substr(1);
  return "";
}

// Returns the data files below a folder, relative to it and sorted. Hidden files, folders __NAME, descriptions, and the
// caches of `datasets` are skipped.
Files files_below(const std::string& folder) {
  Files out;
  std::error_code ec;
  for (auto it = fs::recursive_directory_iterator(folder, ec); !ec && it != fs::recursive_directory_iterator();
       it.increment(ec)) {
    const std::string name = it->path().filename().string();
    if (it->is_directory(ec) && (name.starts_with('.') || name.starts_with("__"))) it.disable_recursion_pending();
    if (!it->is_regular_file(ec) || name.starts_with('.') || name.starts_with("cache-") || name.starts_with("tmp")) continue;
    const bool description = name == "dataset_info.json" || name == "dataset_infos.json" || name == "dataset_dict.json" ||
                             name == "state.json" || name == "config.json" || name == "README.md";
    if (!description && !reader_of(name).empty())
      out.push_back(fs::path(it->path()).lexically_relative(folder).generic_string());
  }
  if (ec) throw UserError("cannot read folder", folder, ec.message(), "check its permissions");
  std::sort(out.begin(), out.end());
  return out;
}

// Groups files by the split in their folder or file name, as `datasets` does. If no name contains a split, all files
// are train.
Splits splits_by_name(const Files& files) {
  Splits out;
  const auto add = [&](const std::string& split, const std::string& file) {
    auto at = std::find_if(out.begin(), out.end(), [&](const auto& s) { return s.first == split; });
    if (at == out.end()) at = out.insert(out.end(), {split, {}});
    if (std::find(at->second.begin(), at->second.end(), file) == at->second.end()) at->second.push_back(file);
  };
  for (const std::string& f : files)
    if (const std::string s = sharded_split(f); !s.empty()) add(s, f);
  for (const bool by_folder : {true, false}) {
    if (!out.empty()) return out;
    for (const Keywords& k : keywords())
      for (const char* word : k.words)
        for (const std::string& f : files) {
          const std::vector<std::string> folders = folders_of(f);
          const bool fits =
              by_folder ? std::any_of(folders.begin(), folders.end(), [&](const auto& d) { return has_word(d, word, true); })
                        : has_word(fs::path(f).filename().string(), word, false);
          if (fits) add(k.split, f);
        }
  }
  if (out.empty() && !files.empty()) out.emplace_back("train", files);
  return out;
}

// Keeps the files of one reader: the most frequent one in the first split. Other files are dropped, as in `datasets`.
void keep_one_reader(Splits& splits) {
  splits.erase(std::remove_if(splits.begin(), splits.end(), [](const auto& s) { return s.second.empty(); }), splits.end());
  if (splits.empty()) return;
  std::map<std::string, int> count;
  for (const std::string& f : splits[0].second) ++count[reader_of(f)];
  const auto most =
      std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string reader = most->first;
  for (auto& [name, files] : splits)
    files.erase(std::remove_if(files.begin(), files.end(), [&](const std::string& f) { return reader_of(f) != reader; }),
                files.end());
  splits.erase(std::remove_if(splits.begin(), splits.end(), [](const auto& s) { return s.second.empty(); }), splits.end());
}

Splits under(const std::string& folder, Splits splits) {
  for (auto& [name, files] : splits)
    for (std::string& f : files) f = (fs::path(folder) / f).lexically_normal().string();
  return splits;
}

// Returns the files below a folder that match the patterns; a pattern without matches is a UserError.
Splits splits_of_patterns(const std::string& folder,
                          const std::vector<std::pair<std::string, std::vector<std::string>>>& patterns,
                          const std::string& where) {
  Splits out;
  for (const auto& [split, list] : patterns) {
    Files found;
    for (const std::string& pattern : list) {
      const size_t before = found.size();
      std::error_code ec;
      if (pattern.find_first_of("*?[") == std::string::npos) {
        const fs::path file = fs::path(folder) / pattern;  // an absolute pattern stays unchanged
        if (fs::is_regular_file(file, ec)) found.push_back(file.lexically_normal().string());
      } else {
        // The part before the first wildcard is a folder, below this one or absolute.
        const size_t slash = pattern.rfind('/', pattern.find_first_of("*?["));
        const std::string before_it = slash == std::string::npos ? "" : pattern.substr(0, slash + 1);
        const fs::path base = (fs::path(folder.empty() ? "." : folder) / before_it).lexically_normal();
        if (!fs::is_directory(base, ec)) continue;
        for (const std::string& f : files_below(base.string()))
          if (fits_pattern(std::string_view(pattern).substr(before_it.size()), f))
            found.push_back((base / f).lexically_normal().string());
      }
      if (found.size() == before)
        throw UserError(fmt::format("data_files: no file is '{}'", pattern), where,
                        fmt::format("a pattern names files below {}", folder.empty() ? "." : folder),
                        missing_path_advice((fs::path(folder) / pattern).string()));
    }
    out.emplace_back(split, std::move(found));
  }
  return out;
}

// Returns the `configs` of a card: YAML between lines --- at the beginning of README.md.
Json configs_of_card(const std::string& folder) {
  const std::string path = (fs::path(folder) / "README.md").string();
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return Json::array();
  const std::string text = read_text(path, int64_t{8} << 20, "a card of a data set");
  if (!text.starts_with("---")) return Json::array();
  const size_t begin = text.find('\n'), end = text.find("\n---", 3);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return Json::array();
  const Json card = json_of(*load_yaml(std::string_view(text).substr(begin + 1, end - begin), path));
  const auto configs = card.is_object() ? card.find("configs") : card.end();
  return configs != card.end() && configs->is_array() ? *configs : Json::array();
}

// Returns the files of a dataset of save_to_disk, in the order of state.json; nothing if the folder is not such a
// dataset.
std::optional<Files> saved_files(const std::string& folder) {
  std::error_code ec;
  const std::string state = (fs::path(folder) / "state.json").string();
  if (!fs::is_regular_file(state, ec)) return std::nullopt;
  const Json j = read_json(state);
  Files out;
  for (const Json& f : array_field(j, "_data_files", state)) {
    const fs::path name = field<std::string>(f, "filename", state);
    if (name.is_absolute() || name.lexically_normal().string().starts_with(".."))
      throw UserError(fmt::format("a file outside of the data set: {}", name.string()), state,
                      "files of a saved data set lie in its folder", "name that file itself, if it is meant");
    out.push_back((fs::path(folder) / name).string());
  }
  return out;
}

std::optional<Splits> saved_splits(const std::string& folder) {
  std::error_code ec;
  const std::string dict = (fs::path(folder) / "dataset_dict.json").string();
  Splits out;
  if (fs::is_regular_file(dict, ec)) {
    const Json j = read_json(dict);
    for (const Json& name : array_field(j, "splits", dict)) {
      if (!name.is_string()) continue;
      const auto files = saved_files((fs::path(folder) / name.get<std::string>()).string());
      if (files) out.emplace_back(name.get<std::string>(), *files);
    }
    return out;
  }
  const auto files = saved_files(folder);
  if (!files) return std::nullopt;
  const Json state = read_json((fs::path(folder) / "state.json").string());
  const auto split = state.find("_split");
  out.emplace_back(split != state.end() && split->is_string() ? split->get<std::string>() : "train", *files);
  return out;
}

// Follows the folders of caches: snapshots/COMMIT of the hub, VERSION/HASH of prepared tables.
std::string behind_caches(std::string folder) {
  std::error_code ec;
  if (const fs::path snapshots = fs::path(folder) / "snapshots"; fs::is_directory(snapshots, ec)) {
    const fs::path main = fs::path(folder) / "refs" / "main";
    std::vector<std::string> found;
    for (const auto& e : fs::directory_iterator(snapshots, ec)) found.push_back(e.path().string());
    if (fs::is_regular_file(main, ec)) {
      std::string commit = read_text(main.string(), 4096, "a reference");
      commit.erase(commit.find_last_not_of(" \n") + 1);
      if (fs::is_directory(snapshots / commit, ec)) return (snapshots / commit).string();
    }
    if (found.size() == 1) return found[0];
    throw UserError("a cache with several snapshots", folder, "one of them is read",
                    fmt::format("name one: {}", fmt::join(found, ", ")));
  }
  for (int depth = 0; depth < 3; ++depth) {
    std::vector<fs::path> below;
    bool files = false;
    for (const auto& e : fs::directory_iterator(folder, ec)) {
      if (e.is_directory(ec))
        below.push_back(e.path());
      else if (const std::string ends = e.path().extension().string(); ends != ".lock")
        files = true;
    }
    const bool prepared = std::any_of(below.begin(), below.end(), [&](const fs::path& d) {
      return fs::is_regular_file(d / "dataset_info.json", ec) && !fs::is_regular_file(d / "state.json", ec);
    });
    if (files || below.empty() || (!prepared && (below.size() > 1 || depth == 2))) return folder;
    if (prepared && below.size() > 1)
      throw UserError("a cache with several copies", folder, "one of them is read",
                      fmt::format("name one, for example {}", below[0].string()));
    const std::string name = below[0].filename().string();
    // Not the folder of a version.
    if (!prepared && name.find_first_not_of("0123456789.") != std::string::npos) return folder;
    folder = below[0].string();
  }
  return folder;
}

[[noreturn]] void refuse_name(const std::string& name, const std::string& folder, const std::vector<std::string>& there,
                              const std::string& where) {
  throw UserError(fmt::format("no configuration '{}' in {}", name, folder), where,
                  there.empty() ? "a name is a configuration of the card, or a folder below the path"
                                : fmt::format("there are {}", fmt::join(there, ", ")),
                  there.empty()
                      ? "leave name out, or name the files by data_files"
                      : fmt::format("write \"name\": \"{}\"", nearest(name, there).empty() ? there[0] : nearest(name, there)));
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(folder, ec))
    if (const std::string name = e.path().filename().string(); e.is_directory(ec) && !name.starts_with('.'))
      out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

// Returns the splits of one configuration of a card.
Splits splits_of_config(const Json& config, const std::string& folder, const std::string& where) {
  const std::string data_dir = field_or<std::string>(config, "data_dir", where, "");
  const std::string base = data_dir.empty() ? folder : (fs::path(folder) / data_dir).string();
  if (const auto files = config.find("data_files"); files != config.end())
    return splits_of_patterns(base, hf_data_files(*files, where), where);
  return under(base, splits_by_name(files_below(base)));
}

Splits splits_of_folder(const HfDatasetRequest& r, const std::string& where) {
  std::error_code ec;
  std::string folder = behind_caches(r.path);
  const Json configs = r.data_files.empty() && r.data_dir.empty() ? configs_of_card(folder) : Json::array();
  std::vector<std::string> names;
  for (const Json& c : configs) names.push_back(field_or<std::string>(c, "config_name", where, "default"));
  for (size_t i = 0; i < names.size(); ++i) {
    const auto is_default = configs[i].find("default");
    const bool wanted = !r.name.empty()
                            ? names[i] == r.name
                            : names.size() == 1 || names[i] == "default" ||
                                  (is_default != configs[i].end() && is_default->is_boolean() && is_default->get<bool>());
    if (wanted) return splits_of_config(configs[i], folder, (fs::path(folder) / "README.md").string());
  }
  if (!names.empty() && r.name.empty())
    throw UserError(fmt::format("{} has several configurations", folder), where,
                    fmt::format("there are {}", fmt::join(names, ", ")), fmt::format("add \"name\": \"{}\"", names[0]));
  if (!names.empty()) refuse_name(r.name, folder, names, where);
  if (!r.name.empty() && r.name != "default") {
    std::string found;
    for (const char* at : {"", "data"})
      if (const fs::path below = fs::path(folder) / at / r.name; found.empty() && fs::is_directory(below, ec))
        found = below.string();
    if (found.empty()) {
      if (fs::path(folder).filename() == r.name) found = folder;  // the path is the configuration itself
    }
    if (found.empty()) refuse_name(r.name, folder, folders_in(folder), where);
    folder = behind_caches(found);
  }
  if (!r.data_dir.empty()) {
    folder = (fs::path(folder) / r.data_dir).string();
    if (!fs::is_directory(folder, ec))
      throw UserError(fmt::format("data_dir is '{}'", r.data_dir), where, "it is a folder below the path",
                      missing_path_advice(folder));
  }
  if (!r.data_files.empty()) return splits_of_patterns(folder, r.data_files, where);
  if (auto saved = saved_splits(folder)) return *saved;
  return under(folder, splits_by_name(files_below(folder)));
}

int64_t count_rows(const Files& files, const std::string& record_field, bool lines) {
  int64_t count = 0;
  Record record;
  for (const std::string& f : files) {
    RecordOptions options;
    options.member = record_field, options.lines = lines;
    for (const auto reader = open_records(f, options); reader->next(record);) ++count;
  }
  return count;
}

// Appends the rows of a slice, file by file. The rows of each file are counted, to find the files in which the slice
// begins and ends.
void append_slice(std::vector<RowsOfFile>& out, const SplitSlice& slice, const Files& files, const std::string& record_field,
                  bool lines) {
  if (!slice.from && !slice.to) {
    for (const std::string& f : files) out.push_back({.path = f, .lines = lines});
    return;
  }
  const int64_t all = count_rows(files, record_field, lines);
  auto [first, end] = slice.rows(all);
  for (const std::string& f : files) {
    const int64_t here = files.size() == 1 ? all : count_rows({f}, record_field, lines);
    if (const RowsOfFile rows{f, std::clamp<int64_t>(first, 0, here), std::clamp<int64_t>(end, 0, here), lines};
        rows.first < rows.end)
      out.push_back(rows);
    first -= here, end -= here;
  }
}

}  // namespace

namespace {

// Matches one character that is not a star. `p` moves past the matched part of the pattern. False if the character
// does not match.
bool fits_one(std::string_view pattern, size_t& p, char c) {
  if (const size_t close = pattern.find(']', p + 2); pattern[p] == '[' && close != std::string_view::npos) {
    std::string_view set = pattern.substr(p + 1, close - p - 1);
    const bool out_of = set[0] == '!' || set[0] == '^';
    if (out_of) set.remove_prefix(1);
    bool in = false;
    for (size_t i = 0; i < set.size(); ++i) {
      if (i + 2 < set.size() && set[i + 1] == '-') {
        in = in || (set[i] <= c && c <= set[i + 2]);
        i += 2;
      } else {
        in = in || set[i] == c;
      }
    }
    p = close + 1;
    return in != out_of && c != '/';
  }
  return pattern[p] == '?' ? ++p, c != '/' : pattern[p++] == c;
}

}  // namespace

// Keeps all positions of the pattern that are reachable after each character: time is O(pattern * path).
bool fits_pattern(std::string_view pattern, std::string_view path) {
  std::vector<char> at(pattern.size() + 1), next;
  const auto reach = [&](std::vector<char>& to, size_t p) {
    for (;;) {
      to[p] = 1;
      if (p >= pattern.size() || pattern[p] != '*') return;
      const bool across = pattern.substr(p).starts_with("**");
      p += across ? 2 : 1;
      if (across && p < pattern.size() && pattern[p] == '/') to[p + 1] = 1;  // **/ may match no folder
    }
  };
  reach(at, 0);
  for (size_t again = 0; again < at.size(); ++again)  // a further star may follow **/
    if (at[again]) reach(at, again);
  for (const char c : path) {
    next.assign(pattern.size() + 1, 0);
    for (size_t p = 0; p < pattern.size(); ++p) {
      if (!at[p]) continue;
      if (pattern[p] == '*') {
        if (pattern.substr(p).starts_with("**") || c != '/') reach(next, p);
      } else if (size_t behind = p; fits_one(pattern, behind, c)) {
        reach(next, behind);
      }
    }
    for (size_t again = 0; again < next.size(); ++again)
      if (next[again]) reach(next, again);
    at.swap(next);
  }
  return at[pattern.size()] != 0;
}

std::vector<RowsOfFile> rows_of_dataset(const HfDatasetRequest& r, const std::string& where) {
  std::error_code ec;
  if (r.path.ends_with(".py"))
    throw UserError(fmt::format("{} is code", r.path), where, "code of a data set is not run",
                    "name the folder of its files, as \"path\", with \"data_files\" where it needs them");
  Splits splits;
  bool lines = false;  // the reader "text" takes the lines of any file
  if (std::any_of(std::begin(kReaders), std::end(kReaders), [&](const char* k) { return r.path == k; }) &&
      !r.data_files.empty()) {
    splits = splits_of_patterns(r.data_dir, r.data_files, where);
    lines = r.path == "text" && r.field.empty();
    for (const auto& [name, files] : splits)
      for (const std::string& f : files)
        if (const std::string own = reader_of(f); own != r.path && !(lines && own != "parquet" && own != "arrow"))
          throw UserError(fmt::format("{} is no file of {}", f, r.path), where,
                          fmt::format("\"path\": \"{}\" reads files of this kind", r.path),
                          reader_of(f).empty() ? "name other files" : fmt::format("write \"path\": \"{}\"", reader_of(f)));
  } else {
    if (!fs::is_directory(r.path, ec))
      throw UserError(fmt::format("no folder '{}'", r.path), where, "path is a folder with the files of a data set",
                      missing_path_advice(r.path, Hub::datasets));
    splits = splits_of_folder(r, where);
  }
  if (!lines) keep_one_reader(splits);
  if (splits.empty())
    throw UserError("no data", r.path, "it must hold .parquet, .arrow, .json, .jsonl, .csv or .txt files",
                    fs::exists(fs::path(r.path) / (fs::path(r.path).filename().string() + ".py"), ec)
                        ? "its code is not run: bring the files into the folder, or name them by data_files"
                        : "name another folder");
  std::vector<std::string> names;
  for (const auto& s : splits) names.push_back(s.first);
  std::vector<RowsOfFile> out;
  for (const SplitSlice& slice : parse_split(r.split, where)) {
    bool found = false;
    for (const auto& [name, files] : splits) {
      if (name != slice.split && slice.split != "all") continue;
      found = true;
      append_slice(out, slice, files, r.field, lines);
    }
    if (!found)
      throw UserError(fmt::format("no split '{}' in {}", slice.split, r.path), where,
                      fmt::format("there are {}", fmt::join(names, ", ")), fmt::format("write \"split\": \"{}\"", names[0]));
  }
  if (out.empty())
    throw UserError(fmt::format("split '{}' has no row", r.split), where, "a slice holds at least one row",
                    "take a larger one");
  return out;
}

}  // namespace ravine
