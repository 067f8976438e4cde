// The folder of a run, train.output: what in it is the run's, and that nothing else in it or beside it is ever lost.
//
// A folder is a run's when it has our mark (files/folder_mark.h), or holds what runs left before there were marks: checkpoints,
// or a config.yaml beside its metrics. In any other folder the names that a run writes must be free.
//
// The mark lists what the run keeps a record of: config.yaml as it was written, and manifest.json of the newest checkpoint that
// was saved. By the first it is known whether somebody has edited the file, by the second that checkpoints were there, should
// they be gone.
#pragma once
#include <memory>
#include <string>

#include "config/config.h"
#include "files/folder_lock.h"
#include "files/folder_mark.h"
#include "runs/checkpoint_files.h"

namespace ravine {

// What a run leaves at its end, inside train.output: "model", or "adapter" where one is trained and not merged.
inline const char* exported_name(const Config& config) {
  return config.lora.asked() && !config.lora.merge ? "adapter" : "model";
}

// Whether a run has made this folder, by its mark or, of older versions, by what lies in it.
bool is_run(const std::string& folder);

// The folder of the run of which `path` is, or lies in, one of its own names (checkpoints/.., model, config.yaml, ..), where no
// other command writes; "" if there is none.
std::string run_that_owns(const std::string& path);

// The place of a name inside train.output.
std::string run_path(const Config& config, const std::string& name);

class RunFolder {
 public:
  // Looks, and writes nothing. UserErrors: an output that is an input (the folder is, or lies in, one that is read; something
  // that is read has one of the names that the run writes); a folder of ours that is no run's, or lies in another run; a name
  // that is taken; a model that this run has not made; a run that is there, and that this one would neither go on with nor was
  // told to begin anew.
  // `files`: where checkpoints are another program's; null: Ravine's own.
  explicit RunFolder(const Config& config, std::shared_ptr<const CheckpointFiles> files = nullptr);

  // Makes the folder, takes its lock, drops a request to stop that was left there, looks again (another run may have been here
  // since; of the model that is there every file that was touched since it was exported, or copied, is read whole now: this
  // takes the time of the disk), marks it and puts right what killed runs left; a second call does nothing. One rank calls it.
  void hold();
  const std::string& run() const { return mark_.run; }  // whose the folder is, once it is held
  const FolderMark& model_seen() const {
    return model_seen_;
  }  // what hold() has seen of the model that is there, for SaveFolder
  // An Error once the folder that is held has gone from its place: nothing is to be made there again.
  void check_there() const;
  // What keeps train.output/model from being the model that was exported: "RUN/model lacks model.safetensors", "" if it is
  // whole (every byte is read). A UserError where a file has other bytes than were written: it may be somebody's work, and is
  // not replaced.
  std::string export_trouble() const;
  // config.yaml; one that somebody has edited keeps its text under another name.
  void write_config(const std::string& text);
  // A checkpoint is complete: by this record it is missed when it is gone. A disk without room loses the record and nothing
  // else.
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
  FolderMark mark_;                         // run empty: not marked yet
  FolderMark model_seen_;
  std::unique_ptr<FolderLock> lock_;
};

// What the run in this folder was made of, as "model.config=A on data.train=[B]" by its config.yaml; "" if that cannot be read.
std::string run_in(const std::string& folder);

}  // namespace ravine
