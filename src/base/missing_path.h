// Advice for a path that does not exist.
#pragma once
#include <cstdint>
#include <string>

namespace ravine {

enum class Hub : uint8_t { none, models, datasets };  // the kind of Hugging Face repository that the path may name

// Returns the advice for an error message about `path`, which does not exist. `hub` is the kind of repository that a
// path such as OWNER/NAME may name on the Hugging Face hub; Hub::none: no repository. The result is the first of these
// that applies:
// - for a URL: the command that downloads it;
// - for a path with full-width or invisible characters: the path in plain characters;
// - the path of a file with a similar name in the same folder (at most 4096 names are compared);
// - for a path that may be a name on the hub: the command that downloads it;
// - the first folder of the path that does not exist;
// - else "check the path".
std::string missing_path_advice(const std::string& path, Hub hub = Hub::none);

}  // namespace ravine
