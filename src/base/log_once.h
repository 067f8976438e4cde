// Warnings that are printed once per process, e.g. about a file that is read several times.
#pragma once
#include <string>

namespace ravine {

// Prints the line on stderr by print_stderr() (base/log.h), unless log_once() has printed the same line in this process
// before. Thread-safe.
void log_once(const std::string& line);

}  // namespace ravine
