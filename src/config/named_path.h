// The value of a flag with rule `named`: DIR, or NAME=DIR.
#pragma once
#include <string>

namespace ravine {

struct NamedPath {
  std::string name;  // "": no name
  std::string path;
};

// Splits the text at the first '=', unless the whole text is an existing path. ~ at the beginning of the path becomes a
// home folder if that is known.
NamedPath named_path(const std::string& text);

}  // namespace ravine
