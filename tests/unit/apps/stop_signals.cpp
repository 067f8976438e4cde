// Signals that ask a run to stop, and those that end it at once: each in a process of its own.
#include "apps/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>

namespace ravine {
namespace test_stop_signals {

struct End {
  int status;
  std::string output;
};

// Runs f in a child process, and returns its end and its output.
End end_of(const std::function<void()>& f) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    for (int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) signal(number, SIG_DFL);
    f();
    _exit(0);
  }
  close(ends[1]);
  std::string output;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) output.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), output};
}

TEST(StopSignals, OnlyASecondInterruptEndsAtOnce) {
  for (int first : {SIGTERM, SIGUSR1, SIGHUP}) {
    EXPECT_EQ(end_of([&] {
                StopSignals signals;
                raise(first);
                raise(SIGINT);
                _exit(signals.requested() ? 7 : 8);
              }).status,
              7)
        << "the first Ctrl-C after signal " << first << " leaves the save alone";
    EXPECT_EQ(end_of([&] {
                StopSignals signals;
                raise(SIGINT);
                raise(first);
                raise(first);
                _exit(7);
              }).status,
              7);
  }
  EXPECT_EQ(end_of([] {
              StopSignals signals;
              raise(SIGINT);
              raise(SIGTERM);
              raise(SIGINT);
            }).status,
            130);
}

TEST(StopSignals, OutsideTheWorkTheWordFits) {
  const End before = end_of([] {
    EndBySignal end;
    raise(SIGTERM);
  });
  EXPECT_EQ(before.status, 130);
  EXPECT_NE(before.output.find("before the first step"), std::string::npos) << before.output;
  const End done = end_of([] {
    EndBySignal end;
    { StopSignals signals; }
    raise(SIGINT);
  });
  EXPECT_EQ(done.status, 130);
  EXPECT_NE(done.output.find("Everything is saved"), std::string::npos) << done.output;
  const End failed = end_of([] {
    EndBySignal end;
    try {
      StopSignals signals;
      throw std::runtime_error("x");
    } catch (const std::exception&) {  // a Trainer waits for its save about here
      raise(SIGINT);
    }
  });
  EXPECT_EQ(failed.status, 130);
  EXPECT_TRUE(failed.output.find("may be lost") != std::string::npos &&
              failed.output.find("Everything is saved") == std::string::npos)
      << failed.output;
}

TEST(StopSignals, StopRequestsAreCleared) {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGTERM, nullptr, &before);
  ::signal(SIGHUP, SIG_IGN);  // as nohup does
  for (int number : {SIGINT, SIGTERM, SIGUSR1}) {
    StopSignals signals;
    EXPECT_FALSE(signals.requested()) << "those of an earlier run are forgotten";
    ::raise(SIGHUP);
    EXPECT_FALSE(signals.requested()) << "who ignored it goes on ignoring it";
    ::raise(number);
    EXPECT_TRUE(signals.requested()) << number;
  }
  ::signal(SIGHUP, SIG_DFL);
  {
    StopSignals signals;
    ::raise(SIGHUP);
    EXPECT_TRUE(signals.requested());
    ::raise(SIGTERM);  // a second one, of another kind than ^C, does not end the process
  }
  ::sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace test_stop_signals
}  // namespace ravine
