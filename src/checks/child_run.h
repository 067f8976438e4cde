// Runs of this program, or of another build of it, as child processes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/stop_token.h"

namespace ravine {

// A child process that has failed.
class ChildFailed : public UserError {
 public:
  using UserError::UserError;
};

std::string this_program();  // returns the path of the running program

// Returns the words that start `program` on so many ranks: `mpirun -n N program`, or the program alone for one rank.
std::vector<std::string> started_on(const std::string& program, int64_t ranks);

// Runs a command to its end. Its output, stdout and stderr, is written to the file `log`. The child ends if this
// process is killed. An exit status other than 0 is a UserError that quotes the last lines of the log; `what` names the
// command in it.
// stop: when it is requested, the child gets SIGTERM, and Stopped is thrown after its end. Null: never.
void run_child(const std::vector<std::string>& words, const std::string& log, const std::string& what,
               const StopToken* stop = nullptr);

// A folder for this process in the system's folder of temporary files; it is removed with the object, unless `kept`
// names a folder, which is created in its place and stays.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& kept);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string inside(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool removed_;
};

}  // namespace ravine
