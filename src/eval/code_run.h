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

// The limits of a program in a Sandbox.
struct SandboxLimits {
  int64_t memory = int64_t{1} << 30;  // largest address space, in bytes
  double seconds = 10;                // largest CPU time, in whole seconds; at least 1
};

// Runs Python programs that a model has written, without access to files, network or other processes.
class Sandbox {
 public:
  // Finds Python (`python3` of PATH) and runs an empty program in the sandbox. If this fails, a UserError names the
  // failed step.
  explicit Sandbox(SandboxLimits limits = {});

  // Runs a Python program. Returns true if it ran to its end: it neither exited early nor raised an exception, and was
  // not stopped by a limit. Blocks for at most 6 * limits.seconds.
  bool passes(const std::string& program) const;

 private:
  struct Outcome {
    bool ended = false;  // true: the program reached its last line
    bool late = false;   // true: the program was stopped because its time by the clock was over
    std::string failed;  // the failed step of the setup; "": none
  };
  Outcome run(const std::string& program) const;
  void find_python();

  SandboxLimits limits_;
  std::string python_;                 // the interpreter, links resolved
  std::vector<std::string> readable_;  // paths that the interpreter needs
};

// Returns the Python program that tests an answer to a human_eval item, by ModelLink's rules (eval_impl/human_eval.py).
// code: the prompt, four blanks and the model's answer. Its lines that are indented or begin with from, import or def
// are kept. It ends at the first other line after the function `entry`. Then `test` and a call of its check(entry)
// follow.
std::string judged_program(const std::string& code, const std::string& test, const std::string& entry);

}  // namespace ravine
