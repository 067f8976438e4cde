// Which folders are ours: a mark inside says who made them and what was put there, so that nothing else is ever replaced or removed.
//
//   FOLDER/.ravine  {"format":"ravine-folder","version":1,"run":"<32 digits>","files":{"config.json":{"bytes":660,"checksum":"<16 digits>"}}}
//
// Untrusted input: a mark that cannot be read is no mark.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace ravine {

inline constexpr const char* kFolderMark = ".ravine";

struct FolderMark {
  struct File {
    int64_t bytes = 0;
    std::string checksum;  // of files of at most 1 MiB, which somebody may have edited; else empty
  };
  std::string run;                    // the run (or other work) that the folder belongs to
  std::map<std::string, File> files;  // by their path in the folder; only of folders that are replaced as a whole
};

std::string new_run_id();  // 32 digits that no other run has
std::optional<FolderMark> read_mark(const std::string& folder);
void write_mark(const std::string& folder, const FolderMark& mark);
FolderMark mark_of(const std::string& folder, const std::string& run);  // lists what is in the folder now

// The first file (or link, or empty folder) below `folder` that its mark does not name, or that is not as the mark says any more; "" if there
// is none. The mark itself is ours.
std::string foreign_in_folder(const std::string& folder, const FolderMark& mark);

}  // namespace ravine
