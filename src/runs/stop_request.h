// A run is asked to stop from outside by a file `stop` in its folder (`ravine stop DIR`).
#pragma once
#include <string>

namespace ravine {

void request_stop(const std::string& output);  // leaves the file
bool stop_requested(const std::string& output);
void clear_stop_request(const std::string& output);

}  // namespace ravine
