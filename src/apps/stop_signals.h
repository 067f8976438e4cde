// The signals that request a stop: SIGINT, SIGTERM, SIGUSR1, SIGHUP (a closed terminal; not under nohup), and
// train.stop_signal.
#pragma once
#include <cstdint>
#include <string>

#include "base/stop_token.h"

namespace ravine {

// Handles the signals that request a stop, while the object exists. The first signal asks to finish the step and save.
// A second SIGINT ends the process at once with status 130. Each prints its message at once, if there is one.
class StopSignals : public StopToken {
 public:
  // further: the number of one more signal; 0: none.
  explicit StopSignals(int64_t further = 0);
  ~StopSignals() override;
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  bool requested() const override;
  // Sets the lines that the first signal (`first`) and the second SIGINT (`end`) print; "": nothing is printed. Lines
  // above 399 bytes are cut. Has no effect while a signal is handled.
  void say_when_asked(const std::string& first, const std::string& end) override;

 private:
  int further_;
};

// Blocks the signals that request a stop, from the first line of main() until the command is known, which decides how
// they are handled.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals() { release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  static void release();
};

// Handles the signals that request a stop outside the scope of a StopSignals. A signal ends the process at once with
// status 130 and a message: the work has not begun, is done, or has failed. The default would print none. Ignored
// signals stay ignored.
class EndBySignal {
 public:
  EndBySignal();
  EndBySignal(const EndBySignal&) = delete;
  EndBySignal& operator=(const EndBySignal&) = delete;
};

}  // namespace ravine
