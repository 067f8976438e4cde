// The name of this program in commands that it prints.
#pragma once
#include <string>

namespace ravine {

// Returns "ravine", or the typed path as a shell word if the program was started by a path. In this case the shell may
// not know the name alone.
std::string program_word();

}  // namespace ravine
