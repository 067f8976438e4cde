// How this program was called, for commands that it prints to be copied.
#pragma once
#include <string>

namespace ravine {

// "ravine", or the path that was typed, as a word of a shell, where it was called by one: then the name alone may be unknown to
// the shell.
std::string program_word();

}  // namespace ravine
