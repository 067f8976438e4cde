// Reads the files of a side (checks/side.h): recognises the program by content and translates its keys.
#pragma once
#include <string>

#include "checks/side.h"

namespace ravine {

// Returns a side without its model: program, config, given keys, environment and notes.
Side read_side(const std::string& given, const SideFacts& facts);

}  // namespace ravine
