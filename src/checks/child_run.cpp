#include "checks/child_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "files/fd.h"
#include "runs/run_folder.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int kNotStarted = 127;  // exit status of a child whose program cannot be started, as in a shell

// Returns the last lines of a file, at most 2000 bytes.
std::string last_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg(), from = std::max<std::streamoff>(0, size - 2000);
  std::string text(static_cast<size_t>(size - from), 0);
  file.seekg(from);
  file.read(text.data(), size - from);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t line = from > 0 ? text.find('\n') : std::string::npos;
  return line == std::string::npos ? text : text.substr(line + 1);
}

}  // namespace

std::string this_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Error("the path of this program is not known: " + error.message());
  return path.string();
}

std::vector<std::string> started_on(const std::string& program, int64_t ranks) {
  if (ranks <= 1) return {program};
  std::vector<std::string> words{"mpirun"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.insert(words.end(), {"--oversubscribe", "-n", std::to_string(ranks), program});
  return words;
}

void run_child(const std::vector<std::string>& words, const std::string& log, const std::string& what, const StopToken* stop) {
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const Fd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!out) throw_system("write", log, errno);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw_system("start", words[0], errno);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (::getppid() != parent || nothing < 0) ::_exit(kNotStarted);
    ::dup2(nothing, 0), ::dup2(*out, 1), ::dup2(*out, 2);
    ::execvp(argv[0], argv.data());
    ::_exit(kNotStarted);
  }
  int status = 0;
  bool asked = false;
  while (true) {
    const pid_t ended = ::waitpid(child, &status, stop ? WNOHANG : 0);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) throw_system("wait for", words[0], errno);
    if (stop && stop->requested() && !std::exchange(asked, true)) ::kill(child, SIGTERM);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (stop && stop->requested()) throw Stopped("stopped: " + what + " was under way; temporary files are removed");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const std::string last = last_lines(log);
  const std::string end = WIFSIGNALED(status) ? fmt::format("signal {} ended it", WTERMSIG(status))
                          : WEXITSTATUS(status) == kNotStarted && last.empty()
                              ? fmt::format("{} cannot be started", words[0])
                              : fmt::format("its exit status is {}", WEXITSTATUS(status));
  throw ChildFailed(fmt::format("{} failed", what), fmt::format("{}", fmt::join(words, " ")), end,
                    last.empty() ? "run the command by itself" : "see its last lines:\n" + last);
}

WorkFolder::WorkFolder(const std::string& kept) : path_(kept), removed_(kept.empty()) {
  if (!removed_) {
    if (const std::string run = run_that_owns(path_); !run.empty() || is_run(path_))
      throw UserError("the folder is in a run", path_, "intermediate files go into a folder of their own",
                      "choose another name");
    std::error_code error;
    if (fs::exists(path_, error) && !fs::is_empty(path_, error))
      throw UserError("the folder is not empty", path_, "intermediate files go into a new or empty folder",
                      "choose another name");
    fs::create_directories(path_, error);
    if (error) throw_system("create folder", path_, error.value());
    return;
  }
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error || parent.string().find('\n') != std::string::npos)
    throw UserError("no folder for temporary files", "TMPDIR", "intermediate files go into the folder that it names",
                    "set TMPDIR to a folder, or give --out DIR");
  path_ = (parent / "ravine-work-XXXXXX").string();
  if (!::mkdtemp(path_.data())) throw_system("create folder", path_, errno);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  if (removed_) fs::remove_all(path_, ignored);
}

}  // namespace ravine
