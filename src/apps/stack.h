// Stack sizes that do not depend on `ulimit -s`.
#pragma once

namespace ravine {

// Sets the stack size of all threads that start later (also in libraries) to at least 8 MiB; also of the current
// thread, if the limit may be raised. UserError if the limit may not be raised and is below 1 MiB.
void prepare_stacks();

}  // namespace ravine
