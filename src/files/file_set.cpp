#include "files/file_set.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "files/compressed.h"
#include "files/temporary.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr const char* kList = ".set.json";
constexpr const char* kSetFormat = "ravine-file-set";
constexpr int kSetVersion = 2;
constexpr int64_t kMostList = int64_t{1} << 20;  // bytes

std::optional<struct stat> look_at(const std::string& path) {
  struct stat s {};
  if (::lstat(path.c_str(), &s) == 0) return s;
  if (errno != ENOENT && errno != ENOTDIR) throw_system("look at", path, errno);
  return {};
}

// Identifies a file or folder of a set: name, size, time of change, inode. Size and time of a folder are not compared.
struct Member {
  std::string name;
  int64_t bytes = 0, changed = 0, file = 0;
  bool operator==(const Member&) const = default;
};

Member member_of(const std::string& name, const struct stat& s) {
  Member m{name, 0, 0, static_cast<int64_t>(s.st_ino)};
  if (!S_ISDIR(s.st_mode)) m.bytes = s.st_size, m.changed = int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec;
  return m;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct SetList {
  std::vector<Member> fresh, old;
  bool overwrite = false;
};

Json to_json(const std::vector<Member>& members) {
  Json list = Json::array();
  for (const Member& m : members)
    list.push_back({{"name", escaped(m.name)}, {"bytes", m.bytes}, {"changed", m.changed}, {"file", m.file}});
  return list;
}

// Reads the members. Names in lists are escaped and looked up among the names of the kind: no other name can result.
std::vector<Member> from_json(const Json& list, const FileSetKind& kind, bool folders) {
  std::vector<Member> members;
  for (const Json& j : list) {
    const std::string stored_name = j.at("name");
    std::optional<std::string> found;
    for (const std::string& name : kind.files)
      if (escaped(name) == stored_name) found = name;
    for (const std::string& name : kind.folders)
      if (folders && escaped(name) == stored_name) found = name;
    require(found.has_value(), "file set: '{}' is no name of its kind", stored_name);
    for (const Member& m : members) require(m.name != *found, "file set: '{}' stands twice", stored_name);
    members.push_back({*found, j.at("bytes"), j.at("changed"), j.at("file")});
  }
  return members;
}

SetList read_list(const std::string& journal, const FileSetKind& kind) {
  const std::string path = journal + "/" + kList;
  std::string of_kind;
  try {
    require(look_at(path) && S_ISREG(look_at(path)->st_mode), "file set: its list is a file");
    const Json j = parse_json(read_whole(path, kMostList), path);
    if (j.at("format") == kSetFormat && j.at("version") == kSetVersion) {
      of_kind = j.at("kind");
      if (of_kind == kind.name)
        return {from_json(j.at("new"), kind, true), from_json(j.at("old"), kind, false), j.at("overwrite")};
    }
  } catch (const std::exception&) {
    of_kind.clear();
  }
  throw UserError("the name of Ravine's journal folder is taken", journal,
                  of_kind.empty()
                      ? fmt::format("this name is for a folder of files that are being replaced, and it has no valid {}", kList)
                      : fmt::format("it holds files of another kind: {}, not {}", of_kind.substr(0, 80), kind.name),
                  "move it away");
}

[[noreturn]] void stand_back(const std::string& journal, const std::string& path, const std::string& how) {
  throw UserError(
      "files changed after their replacement began", path,
      fmt::format("{}; a command was killed while it replaced these files, and its new files are in {}", how, journal),
      fmt::format("to keep the old files, move {} away; to use the new files, move them out of it by hand", journal));
}

// Throws unless all files to move or remove are as the list describes them.
void check_unchanged(const std::string& journal, const FileSetKind& kind, const SetList& list) {
  const std::string to = folder_of(journal) + "/";
  for (const auto& entry : fs::directory_iterator(journal)) {
    const std::string name = entry.path().filename().string();
    if (name != kList && std::none_of(list.fresh.begin(), list.fresh.end(), [&](const Member& m) { return m.name == name; }))
      stand_back(journal, entry.path().string(), "this was not put here by it");
  }
  for (const Member& m : list.fresh) {
    const auto waits = look_at(journal + "/" + m.name), there = look_at(to + m.name);
    const bool folder = has(kind.folders, m.name);
    if (waits && (member_of(m.name, *waits) != m || !(folder ? S_ISDIR(waits->st_mode) : S_ISREG(waits->st_mode))))
      stand_back(journal, journal + "/" + m.name, "this is not the file that was written");
    if (!waits && (!there || member_of(m.name, *there) != m))
      stand_back(journal, to + m.name, "it had its new file already, and that was changed");
    if (!waits || !there) continue;
    if (folder) stand_back(journal, to + m.name, "this folder was put there later");
    if (!list.overwrite)
      throw UserError("output exists", to + m.name,
                      fmt::format("this file appeared in the meantime and is not overwritten; the new file is in {}", journal),
                      "move it away, then run the same command again");
  }
  for (const std::string& name : kind.files) {
    const auto there = look_at(to + name);
    if (!there || !list.overwrite) continue;
    const Member now = member_of(name, *there);
    if (std::find(list.old.begin(), list.old.end(), now) == list.old.end() &&
        std::find(list.fresh.begin(), list.fresh.end(), now) == list.fresh.end())
      stand_back(journal, to + name, "this file was put there later");
  }
}

void give_name(const std::string& from, const std::string& to, const std::string& journal) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  if (errno == EEXIST) stand_back(journal, to, "this file was put there later");
  if (errno != EINVAL && errno != ENOSYS) throw_system("rename file to", to, errno);
  if (look_at(to)) stand_back(journal, to, "this file was put there later");
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system("rename file to", to, errno);
}

// Removes the folder of the journal. The folder is renamed to a temporary name first: an empty folder with the
// journal's own name therefore belongs to the user.
void remove_journal(const std::string& journal) {
  std::error_code error;
  remove_whole(journal, error);
  if (error && look_at(journal)) throw_system("rename", journal, error.value());
}

// Finishes a journal whose lock this process holds.
void finish_held(const std::string& journal, const FileSetKind& kind) {
  const SetList list = read_list(journal, kind);
  check_unchanged(journal, kind, list);
  const std::string to = folder_of(journal) + "/";
  for (const Member& m : list.old)
    if (const auto there = look_at(to + m.name);
        list.overwrite && there && member_of(m.name, *there) == m && !S_ISDIR(there->st_mode))
      if (::unlink((to + m.name).c_str()) != 0) throw_system("remove", to + m.name, errno);
  sync_folder(folder_of(journal));
  for (const Member& m : list.fresh)
    if (look_at(journal + "/" + m.name)) give_name(journal + "/" + m.name, to + m.name, journal);
  sync_folder(folder_of(journal));
  remove_journal(journal);
}

}  // namespace

FileSet::FileSet(const std::string& journal, FileSetKind kind)
    : journal_(journal), kind_(std::move(kind)), building_([&] {
        finish_file_set(journal, kind_);
        for (const std::string& left : leftovers_of(journal)) remove_unused(left);
        return journal;
      }()) {}

void FileSet::commit(const std::vector<std::string>& names, bool overwrite) {
  const std::string to = folder_of(journal_) + "/";
  SetList list{{}, {}, overwrite};
  for (const std::string& name : names) {
    const auto made = look_at(folder() + "/" + name);
    require(made && has(S_ISDIR(made->st_mode) ? kind_.folders : kind_.files, name),
            "file set: '{}' is in the folder, and of the kind", name);
    if (look_at(to + name) && (!overwrite || S_ISDIR(made->st_mode)))
      throw UserError("output exists", to + name, "nothing is overwritten unasked", "choose another name, or remove it");
    list.fresh.push_back(member_of(name, *made));
  }
  if (overwrite) {
    refuse_folders(folder_of(journal_), kind_.files);
    for (const std::string& name : kind_.files)
      if (const auto there = look_at(to + name)) list.old.push_back(member_of(name, *there));
  }
  const Json j{{"format", kSetFormat},   {"version", kSetVersion},     {"kind", kind_.name},
               {"overwrite", overwrite}, {"new", to_json(list.fresh)}, {"old", to_json(list.old)}};
  write_file_atomic(folder() + "/" + kList, j.dump(1, ' ', true) + "\n");
  refuse_unfinished(journal_);
  building_.commit();
  // From here on other processes wait or get an error. A change made before is found here: then nothing was moved yet,
  // and the whole set is given up.
  try {
    check_unchanged(journal_, kind_, list);
  } catch (const UserError&) {
    remove_journal(journal_);
    throw UserError(fmt::format("the {} changed while new ones were written", kind_.name), folder_of(journal_),
                    "the existing files are not the files that this command found at its start; its output is removed",
                    "check the existing files; run the command again to replace them");
  }
  finish_held(journal_, kind_);
}

bool finish_file_set(const std::string& journal, const FileSetKind& kind) {
  const auto there = look_at(journal);
  if (!there) return false;
  if (!S_ISDIR(there->st_mode)) read_list(journal, kind);  // throws
  const Fd held(::open(journal.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!held && errno == ENOENT) return false;
  if (!held) throw_system("open folder", journal, errno);
  int code;
  do code = ::flock(*held, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
  while (code == EINTR);
  if (code == EWOULDBLOCK)
    throw UserError("these files are being replaced", folder_of(journal),
                    fmt::format("another process is replacing them by the files in {}", journal),
                    "run this again when it has ended");
  struct stat mine {};
  if (::fstat(*held, &mine) != 0) throw_system("open folder", journal, errno);
  const auto named = look_at(journal);
  if (!named || named->st_ino != mine.st_ino || named->st_dev != mine.st_dev)
    return false;  // another process has finished it in the meantime
  finish_held(journal, kind);
  print_stderr(fmt::format("an earlier command was ended while it replaced the {} in {}: what it had written is in place now",
                           kind.name, escaped(folder_of(journal))));
  return true;
}

void refuse_unfinished(const std::string& journal) {
  struct stat s {};
  if (::lstat((journal + "/" + kList).c_str(), &s) != 0) return;
  throw UserError(
      "these files are being replaced", folder_of(journal),
      fmt::format("the new files are in {}: a command is replacing the old ones now, or was killed while it did", journal),
      "wait for that command, or run it again: it finishes the replacement, or says why it cannot");
}

void refuse_folders(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (const auto there = look_at(folder + "/" + name); there && !S_ISREG(there->st_mode) && !S_ISLNK(there->st_mode))
      throw UserError(S_ISDIR(there->st_mode) ? "a folder has the name of a file" : "a device or a pipe has the name of a file",
                      folder + "/" + name, "only files are replaced", "move it away, or choose another name");
}

}  // namespace ravine
