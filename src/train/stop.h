// How a run is asked to stop: SIGINT, SIGTERM, SIGUSR1, SIGHUP (a terminal that is closed; not under nohup), or a file `stop` in the output folder (`ravine stop DIR`).
#pragma once
#include <string>

namespace ravine {

// Installs the handlers for the length of a scope. The first signal asks to finish the step and save; a second SIGINT ends the
// process at once with status 130.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static bool requested();
};

void request_stop(const std::string& output);   // leaves the file
bool stop_requested(const std::string& output);
void clear_stop_request(const std::string& output);

}  // namespace ravine
