// The version of this program, as checkpoints and --version give it.
#pragma once

namespace ravine {

const char* program_version();  // "ravine 0.1.0"

}  // namespace ravine
