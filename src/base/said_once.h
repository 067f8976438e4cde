// Warnings of what is read several times in a process: each is said once.
#pragma once
#include <string>

namespace ravine {

// say (base/log.h), unless this very line was said so before. Safe on any thread.
void say_once(const std::string& line);

}  // namespace ravine
