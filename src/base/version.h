// The version of this program, as checkpoints and --version show it.
#pragma once

namespace ravine {

const char* program_version();  // "ravine" and the project version of CMakeLists.txt

}  // namespace ravine
