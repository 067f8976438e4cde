#include "base/version.h"

namespace ravine {

const char* program_version() { return "ravine " RAVINE_VERSION; }

}  // namespace ravine
