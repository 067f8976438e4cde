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

// Returns the name of the folder in train.output to which the trained model is exported: "adapter" if an adapter is
// trained and not merged, else "model".
inline const char* exported_name(const Config& config) {
  return config.lora.enabled() && !config.lora.merge ? "adapter" : "model";
}

// True if the folder is the output of a run of Ravine: it has Ravine's mark or, for older versions, files of a run.
bool is_run(const std::string& folder);

// Returns the folder of the run that owns `path`: `path` is a file or folder that a run writes (checkpoints/.., model,
// config.yaml, ..), or is inside it. Other commands do not write there. "" if no run owns `path`.
std::string run_that_owns(const std::string& path);

// Returns the path of a file in the output folder of a run: train.output/NAME.
std::string run_path(const Config& config, const std::string& name);

// The output folder of a run (train.output), with its lock and its mark.
class RunFolder {
 public:
  // Checks the output folder of a run, and writes nothing. UserErrors:
  // - the output is also an input: a folder that is read, or a file in it, or a file with a name that the run writes;
  // - the folder was made by another command, or is in another run;
  // - a name that the run writes is taken;
  // - the folder has a model that this run has not made;
  // - the folder has a run that this run does not resume, and is not set to replace.
  // `files`: the checkpoint format of another program; null: Ravine's.
  explicit RunFolder(const Config& config, std::shared_ptr<const CheckpointFiles> files = nullptr);

  // Creates and locks the output folder, removes an old stop request, checks the folder again, marks it, and repairs
  // files that killed runs left incomplete. The second check reads each model file that has changed since its export in
  // full, which takes disk time. A second call does nothing. Called by one rank.
  void hold();
  const std::string& run() const { return mark_.run; }  // id of the run, after hold()
  // Returns the mark of the model folder that existed when hold() ran, for SaveFolder.
  const FolderMark& model_seen() const { return model_seen_; }
  // Throws an Error if the locked output folder was moved or deleted: nothing may be written there again.
  void check_there() const;
  // Returns the reason why train.output/model is not the model that the run exported: "RUN/model lacks
  // model.safetensors". "" if the folder is complete and unchanged (every byte is read). A file with other bytes is a
  // UserError: it may be someone's work, and is not replaced.
  std::string export_problem() const;
  // Writes `text` to config.yaml. If someone has edited the existing file, it is renamed first.
  void write_config(const std::string& text);
  // Records in the mark of the folder that the checkpoint of `step` is complete, so that a later start detects its
  // deletion. If the disk is full, only this record is lost.
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

// Returns the model and the data of the run in this folder, as its config.yaml sets them: "model.config=A on
// data.train=[B]". "" if the file cannot be read.
std::string run_in(const std::string& folder);

}  // namespace ravine
