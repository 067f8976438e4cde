// Stack sizes that do not depend on `ulimit -s`.
#pragma once

namespace ravine {

// Sets the stack size of all further threads (also of libraries) to at least 8 MiB; also of this one, if the limit may
// be raised. UserError if it may not and is below 1 MiB.
void prepare_stacks();

}  // namespace ravine
