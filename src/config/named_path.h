// A path that may have a name, as flags of a rule `named` take it: DIR, or NAME=DIR.
#pragma once
#include <string>

namespace ravine {

struct NamedPath {
  std::string name;  // "": none
  std::string path;
};

// What stands before the first '=' is the name, unless the whole text names something that is there. ~ at the beginning of the
// path becomes a home folder where that is known.
NamedPath named_path(const std::string& text);

}  // namespace ravine
