#include "apps/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "files/mapped_file.h"

namespace ravine {
namespace {

bool reader_of_stdout_is_gone() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

void end_by_broken_pipe() {
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
  ::raise(SIGPIPE);
}

// The handler of SIGPIPE. Calls async-signal-safe functions only.
void on_broken_pipe(int) {
  const int code = errno;
  if (reader_of_stdout_is_gone()) end_by_broken_pipe();
  errno = code;
}

bool ignored(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void prepare_streams() {
  for (int fd = 0; fd < 3; ++fd)  // open returns the lowest free number
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF && ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) break;
  ::signal(SIGXFSZ, SIG_IGN);
  name_cut_files();
  if (ignored(SIGPIPE)) return;  // the parent process wants errors instead
  struct sigaction action {};
  action.sa_handler = on_broken_pipe;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &action, nullptr);
}

void outlive_streams() { ::signal(SIGPIPE, SIG_IGN); }

void finish_output(bool lasting) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  const int code = errno;
  const bool gone = reader_of_stdout_is_gone();
  if (gone && lasting)
    return print_stderr("the work is done; what was to be printed about it is lost: nobody reads stdout any more");
  if (gone) end_by_broken_pipe();
  fail("output: writing to stdout failed{}{}{}", code != 0 ? ": " : ", is the disk full?", code != 0 ? std::strerror(code) : "",
       lasting ? "; the work itself is done, only what was to be printed about it is lost" : "");
}

}  // namespace ravine
