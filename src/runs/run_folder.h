// The folder of a run, train.output: its own files, and the protection of all other files.
//
// A folder belongs to a run if it has Ravine's mark (files/folder_mark.h). A folder of an older version has no mark,
// but checkpoints, or a config.yaml with metrics. In any other folder the names that a run writes must be free.
//
// The mark lists checksums of config.yaml as the run wrote it, and of manifest.json of the newest saved checkpoint. The
// first shows if someone has edited the file. The second shows that checkpoints existed, if they are deleted.
#pragma once
#include <memory>
#include <string>

#include "config/config.h"
#include "files/folder_lock.h"
#include "files/folder_mark.h"
#include "runs/checkpoint_files.h"

namespace ravine {

// Returns the name of the exported folder in train.output: "adapter" if an adapter is trained and not merged, else
// "model".
inline const char* exported_name(const Config& config) {
  return config.lora.asked() && !config.lora.merge ? "adapter" : "model";
}

// True if a run has made this folder, by its mark or, for older versions, by its files.
bool is_run(const std::string& folder);

// Returns the folder of the run that owns `path`: `path` is, or is in, a name that a run writes (checkpoints/.., model,
// config.yaml, ..). Other commands do not write there. "" if there is none.
std::string run_that_owns(const std::string& path);

// Returns the path of a name in train.output.
std::string run_path(const Config& config, const std::string& name);

// The folder of a run, with its lock and its mark.
class RunFolder {
 public:
  // Checks the folder, and writes nothing. UserErrors:
  // - the output is also an input: a folder that is read, or a file in it, or a file with a name that the run writes;
  // - the folder was made by another command, or is in another run;
  // - a name that the run writes is taken;
  // - the folder has a model that this run has not made;
  // - the folder has a run that this run does not resume, and is not set to replace.
  // `files`: the checkpoints of another program; null: Ravine's.
  explicit RunFolder(const Config& config, std::shared_ptr<const CheckpointFiles> files = nullptr);

  // Makes and locks the folder, removes an old stop request, checks the folder again, marks it, and repairs the
  // leftovers of killed runs. The second check reads each model file that has changed since its export in full, which
  // takes disk time. A second call does nothing. Called by one rank.
  void hold();
  const std::string& run() const { return mark_.run; }  // id of the run, after hold()
  // Returns the mark of the existing model as hold() has read it, for SaveFolder.
  const FolderMark& model_seen() const { return model_seen_; }
  // Throws an Error if the locked folder was moved or deleted: nothing may be written there again.
  void check_there() const;
  // Returns the reason why train.output/model is not the exported model: "RUN/model lacks model.safetensors". "" if it
  // is whole (every byte is read). A file with other bytes is a UserError: it may be someone's work, and is not
  // replaced.
  std::string export_trouble() const;
  // Writes config.yaml. A file that someone has edited is renamed first.
  void write_config(const std::string& text);
  // Records a complete checkpoint, so that a later start detects its deletion. If the disk is full, only the record is
  // lost.
  void note_saved(int64_t step);

 private:
  void look(bool whole);
  void keep_edited() const;
  void refuse_other_run() const;
  bool unedited(const std::string& config_file) const;
  void note(const std::string& file);
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  int64_t newest() const;  // step of the newest checkpoint; -1: none
  std::shared_ptr<const CheckpointFiles> files_;
  std::string folder_, resume_, exported_;  // exported_: exported_name
  FolderMark mark_;                         // run is empty: not marked yet
  FolderMark model_seen_;
  std::unique_ptr<FolderLock> lock_;
};

// Returns the inputs of the run in this folder from its config.yaml, as "model.config=A on data.train=[B]". "" if the
// file cannot be read.
std::string run_in(const std::string& folder);

}  // namespace ravine
