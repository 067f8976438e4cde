#include "base/missing_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/look_alike.h"
#include "base/shell_word.h"
#include "base/text.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostNames = 4096;

// Returns "owner/name" or "name" from an address on the hub; "" for another address. Sets `hub` to the kind of
// repository.
std::string hub_name(std::string address, Hub& hub) {
  for (const char* begin : {"https://huggingface.co/", "http://huggingface.co/", "https://hf.co/", "hf://"})
    if (address.starts_with(begin)) {
      address = address.substr(std::string_view(begin).size());
      if (address.starts_with("datasets/")) {
        address = address.substr(9);
        hub = Hub::datasets;
      } else if (hub == Hub::none) {
        hub = Hub::models;
      }
      const std::vector<std::string> parts = split(address, '/');
      return parts.size() > 1 && !parts[1].empty() ? parts[0] + "/" + parts[1] : parts[0];
    }
  return "";
}

std::string download(const std::string& name, Hub hub) {
  return fmt::format("download it first: `hf download {}{} --local-dir {}`, then name that folder", shell_word(name),
                     hub == Hub::datasets ? " --repo-type dataset" : "", shell_word(name.substr(name.rfind('/') + 1)));
}

// Returns the fix for a URL: the command that downloads the file to this machine.
std::string bring(const std::string& address) {
  const std::string scheme = address.substr(0, address.find("://"));
  if (scheme == "file") return fmt::format("write the path alone: {}", shell_word(address.substr(7)));
  const char* command = nullptr;
  for (const auto& [name, how] : {std::pair("http", "wget {0}"),
                                  {"https", "wget {0}"},
                                  {"ftp", "wget {0}"},
                                  {"s3", "aws s3 cp {0} ."},
                                  {"s3a", "aws s3 cp {0} ."},
                                  {"gs", "gsutil cp {0} ."},
                                  {"oss", "ossutil cp {0} ."},
                                  {"obs", "obsutil cp {0} ."},
                                  {"hdfs", "hdfs dfs -get {0} ."}})
    if (scheme == name) command = how;
  if (!command) return "files are read from this machine: copy it here first, then name the file";
  return fmt::format("files are read from this machine: download it first (`{}`), then name the file",
                     fmt::format(fmt::runtime(command), shell_word(address)));
}

std::string in_one_case(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

// Returns the name by which token files are given: X if both X.bin and X.idx exist, else `name`.
std::string as_named(const std::string& name, const std::vector<std::string>& names) {
  if (!name.ends_with(".bin") && !name.ends_with(".idx")) return name;
  const std::string stem = name.substr(0, name.size() - 4);
  const auto there = [&](const char* suffix) { return std::find(names.begin(), names.end(), stem + suffix) != names.end(); };
  return there(".bin") && there(".idx") ? stem : name;
}

std::string near_name(const fs::path& folder, const std::string& word) {
  std::error_code error;
  std::vector<std::string> names;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator() && names.size() < kMostNames;
       it.increment(error))
    names.push_back(it->path().filename().string());
  for (const std::string& name : names)
    if (in_one_case(name) == in_one_case(word)) return name;
  std::vector<std::string> stems = names;
  for (std::string& name : stems) name = as_named(name, names);
  for (const auto& list : {stems, names})
    if (const std::string near = nearest(word, list); !near.empty()) return near;
  for (const std::string& name : names)  // "book" for "book.txt"
    if (name.starts_with(word + ".") && name.find('.', word.size() + 1) == std::string::npos) return as_named(name, names);
  return "";
}

}  // namespace

std::string missing_path_advice(const std::string& path, Hub hub) {
  if (path.find("://") != std::string::npos) {
    const std::string name = hub_name(path, hub);
    return name.empty() ? bring(path) : download(name, hub);
  }
  if (const std::string strange = look_alike(path); !strange.empty())
    return fmt::format("{}: write '{}'", strange, with_plain_characters(path));
  if (path.size() > 2 && path[1] == ':' && path[2] == '\\')
    return "it is a path of Windows: write it as this system has it, with / between folders (WSL: /mnt/c/..)";
  fs::path whole = path;
  if (!whole.has_filename()) whole = whole.parent_path();  // "books/"
  std::error_code error;
  fs::path missing = whole;
  while (missing.has_parent_path() && missing.parent_path() != missing && !fs::exists(missing.parent_path(), error))
    missing = missing.parent_path();
  const fs::path there = missing.has_parent_path() ? missing.parent_path() : fs::path(".");
  if (const std::string near = near_name(there, missing.filename().string()); !near.empty()) {
    fs::path likely = missing.has_parent_path() ? missing.parent_path() / near : fs::path(near);
    if (missing != whole) likely /= whole.lexically_relative(missing);
    return fmt::format("did you mean '{}'?", likely.string());
  }
  const size_t slash = path.find('/');
  const bool two = slash != std::string::npos && slash > 0 && slash + 1 < path.size() &&
                   path.find('/', slash + 1) == std::string::npos && path[0] != '.' && path[0] != '~';
  if (hub != Hub::none && two && missing != whole)
    return fmt::format("check the path: there is no {}; if it is a name of the Hugging Face hub, {}", missing.string(),
                       download(path, hub));
  if (hub != Hub::none && slash == std::string::npos && path.find('.') == std::string::npos)
    return "check the path; if it is a name of the Hugging Face hub, " + download(path, hub);
  return missing == whole ? "check the path" : fmt::format("check the path: there is no {}", missing.string());
}

}  // namespace ravine
