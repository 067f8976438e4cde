#include "base/version.h"

namespace ravine {

const char* program_version() { return "ravine 0.1.0"; }

}  // namespace ravine
