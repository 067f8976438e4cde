#include "files/file_set.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "base/json.h"
#include "files/compressed.h"
#include "files/temporary.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char* kList = ".set.json";
constexpr const char* kSetFormat = "ravine-file-set";
constexpr int64_t kMostList = int64_t{1} << 20;  // bytes

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool is_name(const std::string& name) { return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos; }

struct SetList {
  std::vector<std::string> names, gone;
  bool overwrite = false;
};

SetList read_list(const std::string& journal) {
  const std::string path = journal + "/" + kList;
  try {
    const Json j = parse_json(read_whole(path, kMostList), path);
    SetList list;
    if (j.at("format") == kSetFormat && j.at("version") == 1) {
      list = {.names = j.at("names"), .gone = j.at("gone"), .overwrite = j.at("overwrite")};
      for (const auto* names : {&list.names, &list.gone})
        for (const std::string& name : *names) require(is_name(name), "file set: '{}' is no name", name);
      return list;
    }
  } catch (const std::exception&) {
  }
  throw UserError("a folder has the name of one of ours", journal, fmt::format("files wait here for their names while they are replaced, and it has no valid {}", kList), "move it away");
}

void give_name(const std::string& from, const std::string& to, bool overwrite) {
  if (!overwrite && ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  if (!overwrite && (errno == EEXIST || is_there(to)))
    throw UserError("output exists", to, fmt::format("it came meanwhile, and nothing is overwritten unasked; what was written waits in {}", folder_of(from)),
                    "move it away, then the same command puts the new one there");
  if (!overwrite && errno != EINVAL && errno != ENOSYS) throw_system("rename file to", to, errno);
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system("rename file to", to, errno);
}

void finish(const std::string& journal);

}  // namespace

FileSet::FileSet(const std::string& journal)
    : journal_(journal), building_([&] {
        finish_file_set(journal);
        std::error_code error;
        for (const std::string& left : leftovers_of(journal))
          if (!is_in_use(left)) fs::remove_all(left, error);
        return journal;
      }()) {}

void FileSet::commit(const std::vector<std::string>& names, bool overwrite, const std::vector<std::string>& gone) {
  const std::string to = folder_of(journal_) + "/";
  for (const std::string& name : names) {
    require(is_name(name) && is_there(folder() + "/" + name), "file set: '{}' is in the folder", name);
    if (!overwrite && is_there(to + name)) throw UserError("output exists", to + name, "nothing is overwritten unasked", "choose another name, or remove it");
  }
  const Json j{{"format", kSetFormat}, {"version", 1}, {"names", names}, {"gone", gone}, {"overwrite", overwrite}};
  write_file_atomic(folder() + "/" + kList, j.dump(1, ' ', true, Json::error_handler_t::replace) + "\n");
  building_.commit();
  finish(journal_);  // held by this process all the while
}

bool finish_file_set(const std::string& journal) {
  if (!is_there(journal)) return false;
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(journal, error)) && fs::is_empty(journal, error)) {  // all but its own end was done
    fs::remove(journal, error);
    return false;
  }
  if (is_in_use(journal))
    throw UserError("these files are being replaced", folder_of(journal), fmt::format("another process gives the files in {} their names now", journal), "run this again when it has ended");
  finish(journal);
  return true;
}

namespace {

void finish(const std::string& journal) {
  std::error_code error;
  const SetList list = read_list(journal);
  const std::string to = folder_of(journal) + "/";
  if (list.overwrite) {
    std::set<std::string> old(list.gone.begin(), list.gone.end());
    for (const std::string& name : list.names) {
      if (is_there(journal + "/" + name))
        old.insert(name);
      else
        old.erase(name);  // it has its name already
    }
    for (const std::string& name : old)
      if (!fs::remove(to + name, error) && error) throw_system("remove", to + name, error.value());
    sync_folder(folder_of(journal));
  }
  for (const std::string& name : list.names)
    if (is_there(journal + "/" + name)) give_name(journal + "/" + name, to + name, list.overwrite);
  sync_folder(folder_of(journal));
  fs::remove(journal + "/" + kList, error);
  fs::remove(journal, error);
  if (error) throw_system("remove", journal, error.value());
}

}  // namespace

void refuse_unfinished(const std::string& journal) {
  if (!is_there(journal + "/" + kList)) return;
  throw UserError("these files are being replaced", folder_of(journal), fmt::format("the new ones wait in {} for their names: a command writes them now, or was killed while it did", journal),
                  "wait for that command, or run it again: it ends what was begun");
}

}  // namespace ravine
