// Threads beside the main one leave signals to it. A thread that is started under this guard has all of them blocked; who
// starts it has its own mask again, even where it cannot start. SIGXFSZ, blocked, makes a write past the size limit an error.
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
