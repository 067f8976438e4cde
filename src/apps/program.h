// The program: the table of commands. main() is this and nothing else; tests/commands.cpp runs it in children of its own.
#pragma once

namespace ravine {

// The exit status of the command that the words name.
int program(int argc, char** argv);

}  // namespace ravine
