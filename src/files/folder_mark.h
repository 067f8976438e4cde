// The mark of a folder that Ravine made. It names the run, the kind of folder and its files, so that only these are
// replaced or removed.
//
// FOLDER/.ravine  {"format":"ravine-folder","version":1,"kind":"model","run":"<32 digits>",
//   "files":{"config.json":{"bytes":660,"checksum":"<16 digits>","inode":1234,"changed":<ns since 1970>}}}
//
// A file with the marked size, inode and time of change (which no program can set back) is unchanged and is not read.
// Any other file is read in full, e.g. all files of a copied or restored folder. A mark is untrusted input: an
// unreadable mark is treated as no mark.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace ravine {

inline constexpr const char* kFolderMark = ".ravine";

struct FolderMark {
  struct File {
    int64_t bytes = 0;
    std::string checksum;  // empty: unknown (older versions omitted it above 1 MiB), then only the size is compared
    // Inode number and time of change (ns since 1970) of the file; 0: unknown. Stored only 2 s or more after the
    // change: any later change then has another time, also with a coarse clock.
    int64_t inode = 0, changed = 0;
  };
  std::string run;  // id of the run or command that made the folder
  // The files by their path in the folder. A subfolder that is replaced as a whole has all its files here.
  std::map<std::string, File> files;
  std::string kind;  // kRunFolder, kModelFolder or kPreprocessFolder; empty: written by an older version
};

// The values of FolderMark::kind. A command for one kind does not replace a folder of another kind.
inline constexpr const char* kRunFolder = "run";                // train.output
inline constexpr const char* kModelFolder = "model";            // a model that a run has exported
inline constexpr const char* kPreprocessFolder = "preprocess";  // the work folder of `ravine preprocess`

std::string new_run_id();  // 32 random digits
// Returns the mark of the folder; nothing if it has none or an invalid one.
std::optional<FolderMark> read_mark(const std::string& folder);
void write_mark(const std::string& folder, const FolderMark& mark);
// Returns a mark of all files that are in the folder now. `run` and `kind` are stored in it. Reads every file for its
// checksum; with `glance` only files up to 1 MiB, larger files get no checksum.
FolderMark mark_of(const std::string& folder, const std::string& run, const std::string& kind, bool glance = false);

// Returns the first path in `folder` that is not in the mark or differs from it: a file, link or empty folder; "" if
// none. The file of the mark itself is skipped. New inodes and times of files that were read are stored in `mark`: the
// next call does not read them again. glance: a file above 1 MiB is accepted by its size alone.
std::string foreign_in_folder(const std::string& folder, FolderMark& mark, bool glance = false);
// Like foreign_in_folder, for a folder marked as a model; "" for any other folder.
std::string foreign_in_model(const std::string& folder);
// Returns the path of the first file of the mark that is missing in `folder`; "" if none.
std::string missing_in_folder(const std::string& folder, const FolderMark& mark);
// Returns the path of the first file whose bytes differ from the mark; "" if none. `thorough` reads every file; else
// only files whose size, inode or time differ are read.
std::string changed_in_folder(const std::string& folder, const FolderMark& mark, bool thorough = true);

}  // namespace ravine
