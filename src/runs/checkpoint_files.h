// The files of checkpoints where they are those of another program (checkpoint.layout). A run writes a checkpoint of its own into
// a hidden folder; a publisher makes of it the files that the other program reads, and the hidden one goes.
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

// Writes the files of a step from the folder of our checkpoint, with the scalars of its state. Returns the place that a resume
// names. The first rank calls it.
using Publisher = std::function<std::string(const std::string& folder, int64_t step, const Json& scalars)>;

class CheckpointFiles {
 public:
  virtual ~CheckpointFiles() = default;
  // A UserError where these files have no place for what an option asks for. Before anything is opened.
  virtual void check(const Config& config) const = 0;
  // A UserError where train.output holds what the run would write and is not its own. `run`: whose the folder is; "": nobody's.
  virtual void check_folder(const Config& /*config*/, const std::string& /*run*/) const {}
  // The file or folder that checkpoint.resume leads to; "" where the run begins. A UserError where it names none.
  virtual std::string to_resume(const Config& config) const = 0;
  // Removes what killed runs were writing there; the run holds its folder.
  virtual void clean_leftovers(const Config& /*config*/) const {}
  // What a run that goes on takes from its checkpoint over its options, into `config`; lines that tell of it.
  virtual std::vector<std::string> take_over(Config& /*config*/) const { return {}; }
  virtual ForeignState open(const OpenedRun& run, const std::string& path) const = 0;
  virtual Publisher publisher(const OpenedRun& run) const = 0;
  // Where they lie, and the words by which a command goes on from there: "checkpoint.resume=RUN/checkpoint (..)".
  virtual std::string folder(const Config& config) const = 0;
  virtual std::string how_to_go_on(const Config& config) const = 0;
  // The newest in the folder of a run; -1: none, or it is no concern of who begins there anew.
  virtual int64_t newest_step(const std::string& /*output*/) const { return -1; }
  // Their names there, for a message: "checkpoint-*".
  virtual std::string pattern() const = 0;
  // Whether the run ends with a folder of its model beside them.
  virtual bool beside_model() const = 0;
};

}  // namespace ravine
