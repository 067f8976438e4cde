// Files (or folders) of one folder that get their names together, beside files of others: a tokenizer's, a .bin with its .idx,
// what init prepares. Names cannot change all at once, so the new ones wait, complete and on the disk, in a folder JOURNAL
// beside the names that they get; that it has its name is the moment at which the set counts as replaced. Then old ones go, new
// ones get their names in a given order, and JOURNAL goes. A kill before leaves the old set; a kill after leaves JOURNAL:
// readers of the set refuse to take half of it (refuse_unfinished), and the next writer ends what was begun (finish_file_set).
// At no moment do files of both sets lie under their names.
//
//   DIR/JOURNAL/.set.json  {"format":"ravine-file-set","version":2,"kind":"token files","overwrite":true,
//                           "new":[{"name":"a.bin","bytes":8,"changed":<ns since 1970>,"file":<inode>}, ..],
//                           "old":[..]}
//
// "new" is all that is in JOURNAL, in the order in which the names come; "old" is what lay under names of the set.
//
// Untrusted input: a journal is followed only where every name in it is one of its kind's, where what it replaces and what
// waits in it are the very files that it says (size, time, inode), and where no file has come since under one of its names.
// Else it stands back: a UserError, nothing changed. Only plain files and links are ever removed.
#pragma once
#include <string>
#include <vector>

#include "files/atomic.h"

namespace ravine {

// What sets of one kind are made of.
struct FileSetKind {
  std::string name;                       // "token files"
  std::vector<std::string> files;         // every name that one of their files can have
  std::vector<std::string> folders = {};  // and every folder; these are never replaced
};

class FileSet {
 public:
  // The folder of `journal` must exist. What killed writers left of such sets goes, or gets its names.
  FileSet(const std::string& journal, FileSetKind kind);
  const std::string& folder() const { return building_.folder(); }  // build in here

  // `names`: all that is in folder(), in the order in which it appears. With `overwrite` whatever else of the kind is there
  // goes and they take its place; else a name that is taken is a UserError. Before anything is moved.
  void commit(const std::vector<std::string>& names, bool overwrite);

 private:
  std::string journal_;
  FileSetKind kind_;
  AtomicFolder building_;
};

// Ends what a killed writer had begun. False if there is nothing of that kind. One process at a time: others get a UserError.
bool finish_file_set(const std::string& journal, const FileSetKind& kind);
// A UserError if there is: a set is being replaced, or was when its writer was killed.
void refuse_unfinished(const std::string& journal);
// A UserError if what has one of these names in `folder` is no file that may be replaced: a folder, a device.
void refuse_folders(const std::string& folder, const std::vector<std::string>& names);

}  // namespace ravine
