// Programs that a model has written, run where they can do no harm.
//
// A sandbox is a process with user, mount, process, network and IPC namespaces of its own (user_namespaces(7)), whose root is a
// tmpfs of 16 MiB with the Python installation in it, read only. It has no capabilities, sees no other process, has no network;
// seccomp refuses sockets, new processes and threads, and what changes namespaces; 1 GiB of memory, 10 s of computing (six times
// as long by the clock, since other work may slow it down), nothing from the environment, its output goes nowhere. When it ends, its
// time is up or this program dies, however that comes, nothing of it is left: no process, and no folder, as its root is mounted
// where only it sees it.
#pragma once
#include <string>
#include <vector>

namespace ravine {

struct SandboxLimits {
  int64_t memory = int64_t{1} << 30;  // bytes of address space
  double seconds = 10;                // of computing, whole ones from 1
};

class Sandbox {
 public:
  // Finds Python (`python3` of PATH) and tries the sandbox with a program that does nothing. A machine on which it does not
  // come up is a UserError that says which step failed.
  explicit Sandbox(SandboxLimits limits = {});

  // Whether the program ran to its end: it left neither early nor by an exception. Blocks for six times limits.seconds at most.
  bool passes(const std::string& program) const;

 private:
  struct Outcome {
    bool ended = false;  // to the last line
    bool late = false;   // its time by the clock was up
    std::string failed;  // a step of setting up; "": none
  };
  Outcome run(const std::string& program) const;
  void find_python();

  SandboxLimits limits_;
  std::string python_;               // the interpreter, without links
  std::vector<std::string> places_;  // folders that it needs
};

// The program that a human_eval item is judged by, by ModelLink's rules (eval_impl/human_eval.py): of `code` (the prompt, four
// blanks and the answer) lines that are indented and imports and functions; behind the function `entry` no other; then `test`.
std::string judged_program(const std::string& code, const std::string& test, const std::string& entry);

}  // namespace ravine
