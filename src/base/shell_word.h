// Commands to copy.
#pragma once
#include <string>

namespace ravine {

// As one word of a shell's command line: quoted where it must be.
std::string shell_word(const std::string& text);

}  // namespace ravine
