// Files (or folders) of one folder that get their names together, beside files of others: a tokenizer's, a .bin with its .idx, what init prepares. Names cannot change all at
// once, so the new ones wait, complete and on the disk, in a folder JOURNAL beside the names that they get; that it has its name is the moment at which the set counts as
// replaced. Then old ones go, new ones get their names in a given order, and JOURNAL goes. A kill before leaves the old set; a kill after leaves JOURNAL: readers of the set
// refuse to take half of it (refuse_unfinished), and the next writer ends what was begun (finish_file_set). At no moment do files of both sets lie under their names.
//
//   DIR/JOURNAL/.set.json  {"format":"ravine-file-set","version":1,"names":["a.bin","a.idx"],"gone":["a.old"],"overwrite":true}
#pragma once
#include <string>
#include <vector>

#include "files/atomic.h"

namespace ravine {

class FileSet {
 public:
  // The folder of `journal` must exist. What killed writers left of such sets goes, or gets its names.
  explicit FileSet(const std::string& journal);
  const std::string& folder() const { return building_.folder(); }  // build in here

  // `names`: all that is in folder(), in the order in which it appears. With `overwrite` they replace what has their names, and `gone` (further names in the folder of the
  // journal) go; else a name that is taken is a UserError.
  void commit(const std::vector<std::string>& names, bool overwrite, const std::vector<std::string>& gone = {});

 private:
  std::string journal_;
  AtomicFolder building_;
};

// Ends what a killed writer had begun. False if there is nothing of that kind.
bool finish_file_set(const std::string& journal);
// A UserError if there is: a set is being replaced, or was when its writer was killed.
void refuse_unfinished(const std::string& journal);

}  // namespace ravine
