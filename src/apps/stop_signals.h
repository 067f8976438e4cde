// The signals that ask work to stop: SIGINT, SIGTERM, SIGUSR1, SIGHUP (a terminal that is closed; not under nohup).
#pragma once
#include <string>

#include "base/stop_token.h"

namespace ravine {

// Installs the handlers for the length of a scope. The first signal asks to finish the step and save; a second SIGINT, whatever
// came between, ends the process at once with status 130. Both say so at once, if they were given words.
class StopSignals : public StopToken {
 public:
  StopSignals();
  ~StopSignals() override;
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  bool requested() const override;
  // Longer lines are cut. Left out while a signal is being answered.
  void say_when_asked(const std::string& first, const std::string& end) override;
};

// Before a command is known, and before it asks StopSignals: main holds the signals back from its first line on, until the
// command line says whether the command is one that they ask to stop.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals() { release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  static void release();
};

// For the length of a command of that kind: outside the scope of a StopSignals a signal ends the process at once with status
// 130 and a word (whether the work had not begun, is done, or was left by an error), where by default it would end it without.
// Signals that are ignored stay so.
class EndBySignal {
 public:
  EndBySignal();
  EndBySignal(const EndBySignal&) = delete;
  EndBySignal& operator=(const EndBySignal&) = delete;
};

}  // namespace ravine
