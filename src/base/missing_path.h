// What to do about a path that names nothing.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

enum class Hub : uint8_t { none, models, datasets };  // whose names a path may have been meant to be

// A fix for a message: the command that downloads a URL or a name of the Hugging Face hub, the file of that folder with nearly
// this name, the first folder of the path that is not there, else "check the path". Looks at 4096 names of one folder at most.
std::string missing_path_advice(const std::string& path, Hub hub = Hub::none);

}  // namespace ravine
