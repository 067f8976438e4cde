// A sandbox for programs that a model has written.
//
// The sandbox is a process with its own user, mount, process, network and IPC namespaces (user_namespaces(7)). Its root
// is a tmpfs of 16 MiB with the Python installation, read only. The process has no capabilities, sees no other process
// and has no network. seccomp rejects sockets, new processes and threads, and changes of namespaces. Limits: 1 GiB of
// memory, 10 s of CPU time, and six times as long by the clock, because other work may slow it down. The environment is
// empty, and the output is dropped. When the program ends, its time is up or this process dies, nothing is left: no
// process, and no folder, because its root is mounted in its own namespace only.
#pragma once
#include <string>
#include <vector>

namespace ravine {

// The limits of a sandbox.
struct SandboxLimits {
  int64_t memory = int64_t{1} << 30;  // bytes of address space
  double seconds = 10;                // of CPU time; at least 1, whole seconds
};

// Runs programs in a sandbox.
class Sandbox {
 public:
  // Finds Python (`python3` of PATH) and runs an empty program in the sandbox. If this fails, a UserError names the
  // failed step.
  explicit Sandbox(SandboxLimits limits = {});

  // True if the program ran to its end: it neither exited early nor threw an exception. Blocks for at most 6 *
  // limits.seconds.
  bool passes(const std::string& program) const;

 private:
  struct Outcome {
    bool ended = false;  // the last line was reached
    bool late = false;   // its time by the clock was up
    std::string failed;  // the failed step of the setup; "": none
  };
  Outcome run(const std::string& program) const;
  void find_python();

  SandboxLimits limits_;
  std::string python_;               // the interpreter, links resolved
  std::vector<std::string> places_;  // paths that the interpreter needs
};

// Returns the test program of a human_eval item, by ModelLink's rules (eval_impl/human_eval.py). Kept are the lines of
// `code` that are indented, imports or functions. `code` is the prompt, four blanks and the answer. The code ends at
// the first other line after the function `entry`; then `test` follows.
std::string judged_program(const std::string& code, const std::string& test, const std::string& entry);

}  // namespace ravine
