#include "eval/code_run.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "files/fd.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;  // no sandbox
#endif

// System calls that a computing program does not need: for other processes, sockets, namespaces, the kernel, memory
// outside the limits.
constexpr int kForbidden[] = {
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    SYS_clone,  // threads too: nothing else limits their number
    SYS_socket,
    SYS_socketpair,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_bpf,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_memfd_create,
    SYS_shmget,
    SYS_msgget,
    SYS_semget,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_io_setup,
    SYS_seccomp,
    SYS_mknodat,
    SYS_setrlimit,
    SYS_prlimit64,
    425 /* io_uring_setup */,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    442 /* mount_setattr */};
constexpr int kClone3 = 435, kMountSetattr = 442, kCloseRange = 436;

std::vector<sock_filter> system_call_filter() {
  std::vector<sock_filter> f;
  auto load = [&](size_t offset) { f.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset))); };
  auto answer = [&](uint32_t what) { f.push_back(BPF_STMT(BPF_RET | BPF_K, what)); };
  auto answer_if = [&](int number, uint32_t what) {
    f.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    answer(what);
  };
  const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
  load(offsetof(seccomp_data, arch));
  f.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  answer(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(seccomp_data, nr));
  f.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));  // x32 system calls
  answer(SECCOMP_RET_KILL_PROCESS);
  for (const int number : kForbidden) answer_if(number, refuse);
  // its flags are in memory, where the filter cannot read them; libraries fall back to clone
  answer_if(kClone3, SECCOMP_RET_ERRNO | ENOSYS);
  f.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3));
  load(offsetof(seccomp_data, args));
  f.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PDEATHSIG, 0, 1));  // the program ends when this process dies
  answer(refuse);
  answer(SECCOMP_RET_ALLOW);
  return f;
}

// The settings of the child, made before it starts: between clone and exec it makes system calls only.
struct Cage {
  struct Bind {
    std::string from, to;
    bool writable = false;  // true for a device
  };
  std::vector<std::string> folders, files;                 // paths to make in the root
  std::vector<std::pair<std::string, std::string>> links;  // target, path of the link
  std::vector<Bind> binds;
  std::string uid_map, gid_map, python;
  std::vector<sock_filter> filter;
  SandboxLimits limits;
};

constexpr const char* kSteps[] = {"user namespace", "mounts of its own", "tmpfs",          "read-only folders", "new root",
                                  "limits",         "seccomp",           "start of Python"};
struct StartError {
  int step = -1, error = 0;
};

struct MountAttributes {  // struct mount_attr of linux/mount.h, which older headers lack
  uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};

bool write_to(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return done;
}

// The mount point of the root, in the child's own mounts: a folder that always exists, and that the child no longer
// needs.
constexpr const char* kRoot = "/proc";
constexpr double kPatience = 6;  // the clock limit in times of the CPU limit, for a program that does not compute

bool limit_to(int resource, uint64_t most) {
  const rlimit r{most, most};
  return ::setrlimit(static_cast<__rlimit_resource_t>(resource), &r) == 0;
}

bool build_root(const Cage& c) {
  for (const std::string& f : c.folders)
    if (::mkdir(f.c_str(), 0755) != 0 && errno != EEXIST) return false;
  for (const auto& [target, readable] : c.links)
    if (::symlink(target.c_str(), readable.c_str()) != 0 && errno != EEXIST) return false;
  for (const std::string& f : c.files) {
    const int fd = ::open(f.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return false;
    ::close(fd);
  }
  for (const Cage::Bind& b : c.binds) {
    if (::mount(b.from.c_str(), b.to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return false;
    constexpr uint64_t kRecursive = 0x8000, kReadOnly = 1, kNoSetuid = 2, kNoDevices = 4;
    const MountAttributes attributes{b.writable ? kNoSetuid : kReadOnly | kNoSetuid | kNoDevices, 0, 0, 0};
    if (::syscall(kMountSetattr, AT_FDCWD, b.to.c_str(), kRecursive, &attributes, sizeof attributes) != 0) return false;
  }
  return true;
}

bool set_limits(const SandboxLimits& l) {
  const auto seconds = static_cast<uint64_t>(std::max(1.0, l.seconds));
  return limit_to(RLIMIT_AS, static_cast<uint64_t>(l.memory)) && limit_to(RLIMIT_CPU, seconds) && limit_to(RLIMIT_CORE, 0) &&
         limit_to(RLIMIT_FSIZE, 16 << 20) && limit_to(RLIMIT_NOFILE, 64) && limit_to(RLIMIT_MEMLOCK, 0);
}

// Sets up the child and starts Python. program: becomes stdin; status_write: descriptor 3 of the program. Returns the
// failed step; does not return on success.
int enter(const Cage& c, int program, int status_write) {
  int step = 0;
  if (!write_to("/proc/self/setgroups", "deny") || !write_to("/proc/self/uid_map", c.uid_map) ||
      !write_to("/proc/self/gid_map", c.gid_map))
    return step;
  ++step;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return step;
  ++step;
  if (::mount("tmpfs", kRoot, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,nr_inodes=4096,mode=755") != 0) return step;
  ++step;
  if (!build_root(c)) return step;
  ++step;
  if (::chdir(kRoot) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 || ::umount2(".", MNT_DETACH) != 0 ||
      ::chdir("/box") != 0)
    return step;
  ++step;
  const int nothing = ::open("/dev/null", O_RDWR);
  if (nothing < 0 || ::dup2(program, 0) < 0 || ::dup2(nothing, 1) < 0 || ::dup2(nothing, 2) < 0) return step;
  if (status_write != 3 && ::dup2(status_write, 3) < 0) return step;
  ::setsid();
  if (!set_limits(c.limits)) return step;
  ++step;
  const sock_fprog filter{static_cast<unsigned short>(c.filter.size()), const_cast<sock_filter*>(c.filter.data())};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return step;
  ++step;
  const char* const words[] = {"python3", "-I", "-S", "-B", "-", nullptr};
  const char* const environment[] = {"HOME=/box", "LANG=C.UTF-8", nullptr};
  ::execve(c.python.c_str(), const_cast<char**>(words), const_cast<char**>(environment));
  return step;
}

// Moves a descriptor to a free one from `least` on, closed by exec.
Fd high(Fd fd, int least) {
  const int moved = ::fcntl(*fd, F_DUPFD_CLOEXEC, least);
  if (moved < 0) throw_system("duplicate", "sandbox", errno);
  return Fd(moved);
}

std::pair<Fd, Fd> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw_system("pipe", "sandbox", errno);
  return {high(Fd(ends[0]), 16), high(Fd(ends[1]), 16)};
}

Fd file_of_program(const std::string& text) {
  const int raw = ::memfd_create("program", MFD_CLOEXEC);
  if (raw < 0) throw_system("memfd_create", "sandbox", errno);
  Fd fd = high(Fd(raw), 16);
  write_all(*fd, std::as_bytes(std::span(text)), "the program");
  if (::lseek(*fd, 0, SEEK_SET) != 0) throw_system("seek", "the program", errno);
  return fd;
}

std::string random_word() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

// The end of a process: its exit status, if it was not killed by a signal. late: its time was up.
struct Ended {
  std::optional<int> status;
  bool late = false;
};

// Blocks until the process has ended, or kills it when its time is up.
Ended wait_for(pid_t child, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  for (int pause = 1;; pause = std::min(pause * 2, 20)) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return {};
    if (Clock::now() >= until) {
      ::kill(child, SIGKILL);
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      return {.status = {}, .late = true};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
  if (!WIFEXITED(status)) return {};
  return {WEXITSTATUS(status)};
}

std::vector<std::string> output_lines(const char* command) {
  std::string text;
  if (std::FILE* pipe = ::popen(command, "re")) {
    std::array<char, 4096> buffer{};
    for (size_t n; text.size() < (1 << 16) && (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      text.append(buffer.data(), n);
    ::pclose(pipe);
  }
  return split(text, '\n');
}

void add_path(Cage& c, const std::string& readable) {
  std::error_code error;
  std::string at = kRoot;
  for (const fs::path& part : fs::path(readable).parent_path().relative_path()) c.folders.push_back(at += "/" + part.string());
  if (fs::is_symlink(readable, error)) {
    c.links.emplace_back(fs::read_symlink(readable, error).string(), kRoot + readable);
    return;
  }
  const bool folder = fs::is_directory(readable, error);
  (folder ? c.folders : c.files).push_back(kRoot + readable);
  c.binds.push_back({readable, kRoot + readable, readable.starts_with("/dev/")});
}

}  // namespace

Sandbox::Sandbox(SandboxLimits limits) : limits_(limits) {
  find_python();
  const Outcome tried = run("");
  if (tried.ended) return;
  if (tried.late)
    throw UserError("the sandbox did not start in time", "--allow-code",
                    fmt::format("a program that does nothing took more than {} seconds: other work keeps this machine busy",
                                limits_.seconds * kPatience),
                    "wait until there is less of it, or leave out human_eval");
  throw UserError(
      "no sandbox on this machine", "--allow-code",
      tried.failed.empty() ? std::string("a program that does nothing does not end in it") : tried.failed + " is refused",
      "generated code runs in Linux's user namespaces with seccomp only: allow them (sysctl kernel.unprivileged_userns_clone=1, in Docker --security-opt seccomp=unconfined), or leave out human_eval");
}

void Sandbox::find_python() {
  if (kArchitecture == 0)
    throw UserError("no sandbox on this kind of CPU", "--allow-code", "its system calls are known of x86-64 and ARM64 only",
                    "leave out human_eval");
  const std::vector<std::string> lines = output_lines(
      "python3 -I -S -c 'import os, sys; print(os.path.realpath(sys.executable)); print(os.path.realpath(sys.base_prefix)); print(os.path.realpath(sys.base_exec_prefix))' 2>/dev/null");
  if (lines.size() < 3 || !lines[0].starts_with('/'))
    throw UserError("no Python", "--allow-code", "HumanEval's answers are run by python3 of PATH", "install Python 3");
  python_ = lines[0];
  std::vector<std::string> wanted = {"/usr",
                                     "/bin",
                                     "/lib",
                                     "/lib32",
                                     "/lib64",
                                     "/etc/ld.so.cache",
                                     "/dev/null",
                                     "/dev/urandom",
                                     lines[1],
                                     lines[2],
                                     fs::path(python_).parent_path().string()};
  std::error_code error;
  for (const std::string& readable : wanted) {
    const bool inside = std::any_of(readable_.begin(), readable_.end(),
                                    [&](const std::string& p) { return readable == p || readable.starts_with(p + "/"); });
    if (readable != "/" && !inside && fs::exists(readable, error)) readable_.push_back(readable);
  }
}

Sandbox::Outcome Sandbox::run(const std::string& program) const {
  Cage cage;
  cage.python = python_;
  cage.limits = limits_;
  cage.uid_map = fmt::format("65534 {} 1", ::geteuid());
  cage.gid_map = fmt::format("65534 {} 1", ::getegid());
  cage.filter = system_call_filter();
  cage.folders = {fmt::format("{}/box", kRoot), fmt::format("{}/tmp", kRoot), fmt::format("{}/dev", kRoot)};
  for (const std::string& readable : readable_) add_path(cage, readable);

  // Only a program that reaches its last line writes the word there. An early exit with any status does not.
  const std::string word = random_word();
  const Fd text = file_of_program(fmt::format("{}\nimport os as _os\n_os.write(3, b'{}')\n", program, word));
  auto [status_read, status_write] = make_pipe();
  auto [error_read, error_write] = make_pipe();
  const auto flags = static_cast<unsigned long>(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                                CLONE_NEWUTS | SIGCHLD);
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signal handlers of this process must not run in the child
  const long child = ::syscall(SYS_clone, flags, 0, 0, 0, 0);
  const int why = errno;
  if (child == 0) {
    for (int s = 1; s < 32; ++s) ::signal(s, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    constexpr unsigned kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC
    ::syscall(kCloseRange, 4U, ~0U, kCloseOnExec);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(*error_read);  // if the parent was killed before PR_SET_PDEATHSIG, the other end of the pipe is closed
    pollfd parent_pipe{*error_write, 0, 0};
    if (::poll(&parent_pipe, 1, 0) > 0 && (parent_pipe.revents & POLLERR) != 0) ::_exit(127);
    StartError t{enter(cage, *text, *status_write), errno};
    if (::write(*error_write, &t, sizeof t) < 0) ::_exit(127);
    ::_exit(127);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) return {.failed = fmt::format("{} ({})", kSteps[0], std::strerror(why))};
  status_write.close(), error_write.close();
  const Ended end = wait_for(static_cast<pid_t>(child), limits_.seconds * kPatience);
  StartError t;
  if (::read(*error_read, &t, sizeof t) == static_cast<ssize_t>(sizeof t))
    return {.failed = fmt::format("{} ({})", kSteps[t.step], std::strerror(t.error))};
  std::array<char, 64> answer{};
  const ssize_t n = ::read(*status_read, answer.data(), answer.size());
  const bool answer_matches = n == static_cast<ssize_t>(word.size()) && word == std::string_view(answer.data(), word.size());
  return {.ended = end.status == 0 && answer_matches, .late = end.late};
}

bool Sandbox::passes(const std::string& program) const {
  const Outcome o = run(program);
  require(o.failed.empty(), "sandbox: {} is refused", o.failed);
  return o.ended;
}

std::string judged_program(const std::string& code, const std::string& test, const std::string& entry) {
  std::string program = "from typing import List\nimport math\n";
  const std::string head = "def " + entry;
  bool seen = false, first = true;
  for (const std::string& line : split(code, '\n')) {
    const bool begins = std::exchange(first, false);
    if ((begins && line == "python") || line.find_first_not_of(" \t\r\f\v") == std::string::npos) continue;
    const bool indented = line[0] == ' ' || line[0] == '\t';
    const bool kept = indented || line.starts_with("from") || line.starts_with("import") || line.starts_with("def");
    if (!kept && seen) break;
    if (!kept) continue;
    program += line + "\n";
    if (line.starts_with(head) && line.substr(head.size(), 1) == "(") seen = true;
  }
  return program + test + "\ncheck(" + entry + ")\n";
}

}  // namespace ravine
