// Warnings that are printed once per process, e.g. about a file that is read several times.
#pragma once
#include <string>

namespace ravine {

// Prints the line on stderr by say() (base/log.h), unless say_once() has printed the same line in this process before.
// Thread-safe.
void say_once(const std::string& line);

}  // namespace ravine
