// Warnings that are printed once per process, e.g. about a file that is read several times.
#pragma once
#include <string>

namespace ravine {

// Calls say() (base/log.h), unless this line was printed by say_once() before. Thread-safe.
void say_once(const std::string& line);

}  // namespace ravine
