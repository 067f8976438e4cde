// A guard that blocks all signals in the current thread: from its construction to its destruction, which restores the
// old signal mask. A thread that starts under the guard inherits the block, so only the main thread receives signals.
// SIGXFSZ is blocked too: a write past the file size limit then returns an error and does not end the process.
#pragma once
#include <signal.h>

namespace ravine {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ravine
