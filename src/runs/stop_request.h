// A stop request for a run: the file `stop` in its folder (`ravine stop DIR`).
#pragma once
#include <string>

namespace ravine {

void request_stop(const std::string& output);  // writes the file
bool stop_requested(const std::string& output);
void clear_stop_request(const std::string& output);

}  // namespace ravine
