// A set of files (or folders) in one folder that get their names together, next to files of other sets. Examples: a
// tokenizer's files, a .bin with its .idx, the output of init. Several names cannot change atomically. The new files
// therefore wait, complete and synced, in the folder JOURNAL next to their final names. The set is replaced at the
// moment when JOURNAL gets its name. Then the old files are removed, the new ones are renamed in a given order, and
// JOURNAL is removed. A kill before this moment leaves the old set. A kill after it leaves JOURNAL: readers of the set
// refuse a partial set (refuse_unfinished), and the next writer finishes the replacement (finish_file_set). Files of
// both sets never have their names at the same time.
//
//   DIR/JOURNAL/.set.json  {"format":"ravine-file-set","version":2,"kind":"token files","overwrite":true,
//                           "new":[{"name":"a.bin","bytes":8,"changed":<ns since 1970>,"file":<inode>}, ..],
//                           "old":[..]}
//
// "new" lists all files in JOURNAL, in the order of renaming. "old" lists the existing files with names of the set.
//
// A journal is untrusted input. A journal is followed only if
// - every name in it belongs to its kind;
// - the files to replace and the waiting files have the listed size, time and inode;
// - no other file has appeared under one of the names.
// Otherwise a UserError is thrown and nothing changes. Only plain files and links are removed.
#pragma once
#include <string>
#include <vector>

#include "files/atomic.h"

namespace ravine {

// The names that a set of files of one kind may use.
struct FileSetKind {
  std::string name;                       // "token files"
  std::vector<std::string> files;         // all names that a file of the kind may have
  std::vector<std::string> folders = {};  // all names of folders; folders are never replaced
};

// A new set under construction, which replaces the files of its kind at commit().
class FileSet {
 public:
  // Creates a temporary folder for the files of a new set. `journal` is the path of the journal folder while the set is
  // replaced; its parent folder must exist. Leftovers of killed writers are removed, or finished.
  FileSet(const std::string& journal, FileSetKind kind);
  const std::string& folder() const { return building_.folder(); }  // the temporary folder: create the files here

  // Replaces the old set by the new one. `names` are all files in folder(), in the order of renaming. With `overwrite`,
  // all existing files of the kind are removed. Without it, an existing name is a UserError, before any file is moved.
  void commit(const std::vector<std::string>& names, bool overwrite);

 private:
  std::string journal_;
  FileSetKind kind_;
  AtomicFolder building_;
};

// Finishes the replacement of a file set whose writer was killed. `journal` is the set's journal folder. Returns false
// if there is no journal. While one process does it, other processes get a UserError.
bool finish_file_set(const std::string& journal, const FileSetKind& kind);
// Throws a UserError if `journal` exists: the file set is being replaced, or its writer was killed during the
// replacement.
void refuse_unfinished(const std::string& journal);
// Throws a UserError if `folder` holds a folder or a device under one of `names`: only files and links may be replaced.
void refuse_folders(const std::string& folder, const std::vector<std::string>& names);

}  // namespace ravine
