// A child process whose system calls are seen one by one: what it does to names and files, and a kill at any of them.
#pragma once
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

struct TracedChild {
  bool possible = true;  // false: this system does not let processes be traced
  bool killed = false;   // else it ended by itself, with `status`
  int status = -1;
  std::vector<std::string> calls;  // "rename A B", "unlink A", "fsync A", ..: those that change something, in order
};

namespace traced {

// As linux/ptrace.h has it; that header and sys/ptrace.h do not go together everywhere.
struct SyscallInfo {
  uint8_t op, pad[3];
  uint32_t arch;
  uint64_t instruction_pointer, stack_pointer, number, args[6], rest[2];
};
constexpr int kGetSyscallInfo = 0x420e;

inline std::string text_of(pid_t pid, uint64_t address) {
  std::string text;
  while (text.size() < PATH_MAX) {
    std::array<char, 256> piece;
    const size_t room = std::min<size_t>(piece.size(), 4096 - (address + text.size()) % 4096);  // within a page
    iovec local{piece.data(), room}, remote{reinterpret_cast<void*>(address + text.size()), room};
    const ssize_t n = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (n <= 0) return text;
    for (ssize_t i = 0; i < n; ++i) {
      if (piece[static_cast<size_t>(i)] == 0) return text;
      text += piece[static_cast<size_t>(i)];
    }
  }
  return text;
}

inline std::string path_of(pid_t pid, uint64_t fd) {
  std::error_code ignored;
  std::string path =
      std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(static_cast<int>(fd)), ignored)
          .string();
  constexpr std::string_view kNameless = " (deleted)";
  if (path.ends_with(kNameless)) path.resize(path.size() - kNameless.size());
  return path;
}

inline std::string at(pid_t pid, uint64_t fd, uint64_t name) {
  const std::string text = text_of(pid, name);
  return text.starts_with("/") || static_cast<int>(fd) == AT_FDCWD ? text : path_of(pid, fd) + "/" + text;
}

// The call in words; "" if it changes neither names nor files.
inline std::string words(pid_t pid, const SyscallInfo& s) {
  const auto& a = s.args;
  switch (static_cast<long>(s.number)) {
#ifdef SYS_rename
    case SYS_rename:
      return "rename " + text_of(pid, a[0]) + " " + text_of(pid, a[1]);
    case SYS_mkdir:
      return "mkdir " + text_of(pid, a[0]);
    case SYS_unlink:
      return "unlink " + text_of(pid, a[0]);
    case SYS_rmdir:
      return "unlink " + text_of(pid, a[0]);
    case SYS_open:
      return (a[1] & O_CREAT) ? "create " + text_of(pid, a[0]) : "";
#endif
#ifdef SYS_renameat
    case SYS_renameat:
      return "rename " + at(pid, a[0], a[1]) + " " + at(pid, a[2], a[3]);
#endif
    case SYS_renameat2:
      return std::string((a[4] & RENAME_EXCHANGE) ? "exchange " : "rename ") + at(pid, a[0], a[1]) + " " + at(pid, a[2], a[3]);
    case SYS_linkat: {  // of a file that has no name yet: /proc/self/fd/N
      const std::string from = text_of(pid, a[1]), proc = "/proc/self/fd/";
      return "link " + (from.starts_with(proc) ? path_of(pid, std::stoul(from.substr(proc.size()))) : at(pid, a[0], a[1])) +
             " " + at(pid, a[2], a[3]);
    }
    case SYS_mkdirat:
      return "mkdir " + at(pid, a[0], a[1]);
    case SYS_unlinkat:
      return "unlink " + at(pid, a[0], a[1]);
    case SYS_openat:
      return (a[2] & O_CREAT) ? "create " + at(pid, a[0], a[1]) : "";
    case SYS_fsync:
      return "fsync " + path_of(pid, a[0]);
    case SYS_ftruncate:
      return "truncate " + path_of(pid, a[0]);
    case SYS_fallocate:
      return "allocate " + path_of(pid, a[0]);
    case SYS_write:
      return "write " + path_of(pid, a[0]);
    case SYS_pwrite64:
      return "write " + path_of(pid, a[0]);
    case SYS_io_uring_enter:
      return "write by io_uring";
    default:
      return "";
  }
}

}  // namespace traced

// Makes renameat2 refuse RENAME_EXCHANGE in this process from now on, as file systems without it do.
inline bool refuse_exchange() {
  const auto number = static_cast<uint32_t>(offsetof(seccomp_data, nr)),
             flags = static_cast<uint32_t>(offsetof(seccomp_data, args) + 4 * sizeof(uint64_t));
  std::array<sock_filter, 6> code{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RENAME_EXCHANGE, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Makes openat refuse O_TMPFILE in this process from now on, as file systems without nameless files do.
inline bool refuse_nameless() {
  constexpr uint32_t kTmpfile = O_TMPFILE & ~O_DIRECTORY;
  const auto number = static_cast<uint32_t>(offsetof(seccomp_data, nr)),
             flags = static_cast<uint32_t>(offsetof(seccomp_data, args) + 2 * sizeof(uint64_t));
  std::array<sock_filter, 6> code{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kTmpfile, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs f in a child, which is killed at the start of system call `kill_at` in `calls` (from 1; 0: never). `before` runs
// in this process before each of these calls, while the child waits.
inline TracedChild trace_child(int kill_at, const std::function<void()>& f,
                               const std::function<void(const std::string& call)>& before = {}) {
  TracedChild out;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    ::raise(SIGSTOP);
    int status = 0;
    try {
      f();
    } catch (...) {
      status = 9;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  constexpr long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  if (!WIFSTOPPED(status) || ::ptrace(PTRACE_SETOPTIONS, child, nullptr, options) != 0) {
    out.possible = false;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return out;
  }
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  for (;;) {
    const pid_t pid = ::waitpid(-1, &status, __WALL);
    if (pid < 0) {
      if (errno == EINTR) continue;
      return out;
    }
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (pid != child) continue;
      out.killed = WIFSIGNALED(status);
      out.status = out.killed ? WTERMSIG(status) : WEXITSTATUS(status);
      return out;
    }
    long signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      traced::SyscallInfo info{};
      if (::ptrace(static_cast<__ptrace_request>(traced::kGetSyscallInfo), pid, reinterpret_cast<void*>(sizeof info), &info) >
              0 &&
          info.op == 1)
        if (std::string call = traced::words(pid, info);
            !call.empty() && !call.starts_with("write pipe:")) {  // a pipe: sanitizers use it to check memory
          out.calls.push_back(std::move(call));
          if (before) before(out.calls.back());
          if (static_cast<int>(out.calls.size()) == kill_at) ::kill(child, SIGKILL);
        }
    } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
      signal = WSTOPSIG(status);
    }
    ::ptrace(PTRACE_SYSCALL, pid, nullptr, signal);
  }
}
