// Arguments of shell commands that are printed.
#pragma once
#include <string>

namespace ravine {

// Returns `text` as one word of a shell command line, in single quotes if it needs them.
std::string shell_word(const std::string& text);

}  // namespace ravine
