// The interface to checkpoints in the format of another program (checkpoint.layout). A run writes Ravine's checkpoint
// into a hidden folder. A publisher converts it to the files of the other program, and the hidden folder is removed.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"
#include "io/checkpoint.h"

namespace ravine {

struct OpenedRun;

// A function that converts a checkpoint of Ravine to the files of another program. `folder`: the checkpoint of Ravine.
// `step`: its step. `scalars`: the scalars of its state. Returns the path to resume from. Called by the first rank.
using Publisher = std::function<std::string(const std::string& folder, int64_t step, const Json& scalars)>;

// Base class of the checkpoint formats of other programs (checkpoint.layout).
class CheckpointFiles {
 public:
  virtual ~CheckpointFiles() = default;
  // Throws a UserError if an option of `config` needs a value that this checkpoint format cannot store. Called before
  // model or data are opened.
  virtual void check(const Config& config) const = 0;
  // Throws a UserError if train.output has files with names of checkpoints of this format, and this run has not made
  // them. `run`: id of the run that owns the folder; "": no run.
  virtual void check_folder(const Config& /*config*/, const std::string& /*run*/) const {}
  // Returns the checkpoint (file or folder) that checkpoint.resume leads to; "" if the run starts anew. A UserError if
  // checkpoint.resume names a checkpoint that does not exist.
  virtual std::string to_resume(const Config& config) const = 0;
  // Removes incomplete checkpoints of killed runs. The run holds its folder.
  virtual void clean_leftovers(const Config& /*config*/) const {}
  // Replaces options in `config` by values from the checkpoint to resume from. Returns log lines on these options.
  virtual std::vector<std::string> take_over(Config& /*config*/) const { return {}; }
  virtual ForeignState open(const OpenedRun& run, const std::string& path) const = 0;
  virtual Publisher publisher(const OpenedRun& run) const = 0;
  // folder: returns the folder of the checkpoints. how_to_go_on: returns the option of a command that resumes the run:
  // "checkpoint.resume=RUN/checkpoint (..)".
  virtual std::string folder(const Config& config) const = 0;
  virtual std::string how_to_go_on(const Config& config) const = 0;
  // Returns the step of the newest checkpoint of this format in the folder of a run; -1 if there is none, or if a new
  // run may ignore the files.
  virtual int64_t newest_step(const std::string& /*output*/) const { return -1; }
  // Returns the pattern of the names of checkpoints of this format, for messages: "checkpoint-*".
  virtual std::string pattern() const = 0;
  // True if the run also exports a model folder at its end.
  virtual bool exports_model() const = 0;
};

}  // namespace ravine
