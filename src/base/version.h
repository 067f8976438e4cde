// The version of this program, as checkpoints and --version give it.
#pragma once

namespace ravine {

const char* program_version();  // "ravine" and the version that CMakeLists.txt gives the project

}  // namespace ravine
