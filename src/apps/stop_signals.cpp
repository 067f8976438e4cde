#include "apps/stop_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <iterator>

namespace ravine {
namespace {
std::atomic<bool> asked{false};  // global: a signal handler has no other access
std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// The messages of signals. There are two sets: handlers read the current one while the other is written.
struct Words {
  std::array<char, 400> text{};
  size_t size = 0;
  void set(const std::string& line) {
    size = line.empty() ? 0 : std::min(line.size(), text.size() - 1);
    std::memcpy(text.data(), line.data(), size);
    if (size > 0) text[size++] = '\n';
  }
  void write() const {
    constexpr char kClear[] = "\r\033[J";  // a progress bar or ^C may be on the line
    if (size > 0 && ::isatty(STDERR_FILENO)) static_cast<void>(!::write(STDERR_FILENO, kClear, sizeof kClear - 1));
    if (size > 0) static_cast<void>(!::write(STDERR_FILENO, text.data(), size));
  }
};
struct Answers {
  Words first, end;
};
Answers answers[2];
std::atomic<int> current{0}, readers{0};

// Makes stderr non-blocking, if it is a pipe or a socket. A pipe without a reader (mpirun stops reading when it ends a
// job) would block the process and its save. After the first signal, lines that do not fit are lost; log.txt has all
// lines.
void never_wait_for_readers() {
  struct stat s;
  if (::fstat(STDERR_FILENO, &s) != 0 || !(S_ISFIFO(s.st_mode) || S_ISSOCK(s.st_mode))) return;
  const int flags = ::fcntl(STDERR_FILENO, F_GETFL);
  if (flags >= 0) ::fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
}

void handle(int number) {
  const int error = errno;
  never_wait_for_readers();
  const bool first = !asked.exchange(true);
  readers.fetch_add(1);
  const Answers& a = answers[current.load()];
  if (first) a.first.write();
  if (number == SIGINT && interrupts.fetch_add(1) > 0) {
    a.end.write();
    _exit(130);
  }
  readers.fetch_sub(1);
  errno = error;
}

// The state of the work under StopSignals. After an error the process may still wait for a save.
enum class Work { before, failed, done };
std::atomic<Work> work{Work::before};
static_assert(std::atomic<Work>::is_always_lock_free);

template <size_t N>
void write_line(const char (&line)[N]) {
  static_cast<void>(!::write(STDERR_FILENO, line, N - 1));
}

void end_early(int) {
  switch (work.load()) {
    case Work::before:
      write_line("Stopped before the first step. Run the same command to start.\n");
      break;
    case Work::failed:
      write_line("Stopped during an error exit. A save under way may be lost; earlier saves are intact.\n");
      break;
    case Work::done:
      write_line("Stopped at the end. Everything is saved.\n");
      break;
  }
  _exit(130);
}

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : kSignals) sigaddset(&set, number);
  return set;
}

struct sigaction before_us[std::size(kSignals)], before_further;
}  // namespace

StopSignals::StopSignals(int64_t further) : further_(static_cast<int>(further)) {
  asked = false;
  interrupts = 0;
  say_when_asked("", "");
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &action, &before_us[i]);
    // Nohup.
    if (kSignals[i] == SIGHUP && before_us[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &before_us[i], nullptr);
  }
  if (std::find(std::begin(kSignals), std::end(kSignals), further_) != std::end(kSignals)) further_ = 0;
  if (further_ != 0) sigaction(further_, &action, &before_further);
}

StopSignals::~StopSignals() {
  work = std::uncaught_exceptions() > 0 ? Work::failed : Work::done;
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_us[i], nullptr);
  if (further_ != 0) sigaction(further_, &before_further, nullptr);
}

bool StopSignals::requested() const { return asked.load(); }

void StopSignals::say_when_asked(const std::string& first, const std::string& end) {
  const int next = 1 - current.load();
  if (readers.load() > 0) return;  // a handler may still read the set to be written
  answers[next].first.set(first);
  answers[next].end.set(end);
  current = next;
}

HeldSignals::HeldSignals() {
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void HeldSignals::release() {
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

EndBySignal::EndBySignal() {
  struct sigaction action {};
  action.sa_handler = end_early;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int number : kSignals) {
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::sigaction(number, &action, nullptr);
  }
}

}  // namespace ravine
