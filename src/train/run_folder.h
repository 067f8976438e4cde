// The folder of a run, train.output: what in it is the run's, and that nothing else in it or beside it is ever lost.
//
// A folder is a run's when it has our mark (files/folder_mark.h), or holds what runs left before there were marks: checkpoints, or a config.yaml
// beside its metrics. In any other folder the names that a run writes must be free.
#pragma once
#include <memory>
#include <string>

#include "config/config.h"
#include "files/folder_lock.h"

namespace ravine {

// The folder of the run of which `path` is, or lies in, one of its own names (checkpoints/.., model, config.yaml, ..), where no other command writes; "" if there is none.
std::string run_that_owns(const std::string& path);

class RunFolder {
 public:
  // Looks, and writes nothing. UserErrors: an output that is an input (the folder is, or lies in, one that is read; something that is read
  // has one of the names that the run writes); a name that is taken; a model that this run has not made.
  explicit RunFolder(const Config& config);

  // Makes the folder, takes its lock, marks it and puts right what killed runs left; a second call does nothing. One rank calls it.
  void hold();
  const std::string& run() const { return run_; }  // whose the folder is, once it is held
  // config.yaml; one that somebody has edited keeps its text under another name.
  void write_config(const std::string& text) const;

 private:
  std::string path(const char* name) const { return folder_ + "/" + name; }
  std::string folder_, run_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace ravine
