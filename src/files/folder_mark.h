// Which folders are ours: a mark inside says who made them, as what, and what was put there, so that nothing else is ever
// replaced or removed.
//
//   FOLDER/.ravine  {"format":"ravine-folder","version":1,"kind":"model","run":"<32 digits>",
//                    "files":{"config.json":{"bytes":660,"checksum":"<16 digits>","inode":1234,"changed":<ns since 1970>}}}
//
// A file that still has its size, inode and time of change (which no program can set back) is as it was, unread; of any other,
// as of all in a folder that was copied or restored, every byte is read, at the speed of the disk. Untrusted input: a mark that
// cannot be read is no mark.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace ravine {

inline constexpr const char* kFolderMark = ".ravine";

struct FolderMark {
  struct File {
    int64_t bytes = 0;
    std::string checksum;            // empty: not known (older versions left it out above 1 MiB), then the size must do
    int64_t inode = 0, changed = 0;  // 0: not known. Taken 2 s after the change at the earliest: any later one has another
                                     // time, however coarse the clock of the file system
  };
  std::string run;                    // the run (or other work) that the folder belongs to
  std::map<std::string, File> files;  // by their path in the folder; all of folders that are replaced as a whole
  std::string kind;                   // one of those below; empty: of a version that did not say
};

// What a folder was made as: a mark of one kind opens it to no command of another.
inline constexpr const char* kRunFolder = "run";                // train.output
inline constexpr const char* kModelFolder = "model";            // a model that a run has exported
inline constexpr const char* kPreprocessFolder = "preprocess";  // the work folder of `ravine preprocess`

std::string new_run_id();  // 32 digits that no other run has
std::optional<FolderMark> read_mark(const std::string& folder);
void write_mark(const std::string& folder, const FolderMark& mark);
// Lists what is in the folder now; reads all of it, with `glance` only files up to 1 MiB: others get no checksum.
FolderMark mark_of(const std::string& folder, const std::string& run, const std::string& kind, bool glance = false);

// The first file (or link, or empty folder) below `folder` that its mark does not name, or that is not as the mark says any
// more; "" if there is none. The mark itself is ours. What had to be read is noted in `mark`, and not read again by the next
// call with it. glance: reads little; a file above 1 MiB that was touched but kept its size passes.
std::string foreign_in_folder(const std::string& folder, FolderMark& mark, bool glance = false);
// The same of a folder that is marked as a model; "" of any other.
std::string foreign_in_model(const std::string& folder);
// Of the files that the mark names the first that is gone, and the first that has other bytes (every byte is read; not
// `thorough`: only of those that were touched or copied); "" if there is none.
std::string missing_in_folder(const std::string& folder, const FolderMark& mark);
std::string changed_in_folder(const std::string& folder, const FolderMark& mark, bool thorough = true);

}  // namespace ravine
