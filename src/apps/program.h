// The program: the table of commands. main() calls it; tests/commands.cpp runs it in child processes.
#pragma once

namespace ravine {

// Runs the command of the arguments and returns the exit status.
int program(int argc, char** argv);

}  // namespace ravine
