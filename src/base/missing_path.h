// Advice for a path that does not exist.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

enum class Hub : uint8_t { none, models, datasets };  // the kind of Hugging Face repository that the path may name

// Returns the fix for an error message about a missing path:
// - for a URL or a name on the Hugging Face hub: the command that downloads it;
// - the path of a file with a similar name in the same folder (at most 4096 names are compared);
// - the first folder of the path that does not exist;
// - else "check the path".
std::string missing_path_advice(const std::string& path, Hub hub = Hub::none);

}  // namespace ravine
