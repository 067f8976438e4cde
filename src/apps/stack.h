// Stacks of the size that the program was written for, whatever `ulimit -s` says.
#pragma once

namespace ravine {

// Threads made from now on, those of libraries too, have 8 MiB at least; so has this one where the limit may be raised. Where
// it may not be, and is below 1 MiB, a UserError.
void prepare_stacks();

}  // namespace ravine
