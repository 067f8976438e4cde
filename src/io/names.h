// How weight files of a family spell the names of parameters. A family whose files differ from the declared names adds a table
// here.
#pragma once
#include <string>
#include <string_view>

namespace ravine {

struct NameTable {
  std::string_view architecture;                    // Transformers' class, for "architectures" of config.json
  std::string (*parameter)(std::string_view file);  // name in a file -> declared name; files of the bare model lack a prefix
  std::string (*file)(std::string_view parameter);  // declared name -> name in files that are written
  bool (*constant)(std::string_view file);          // a buffer that some versions store and nobody reads
};

// For the model_type of a config.json. An unknown one is an Error: families are checked before.
const NameTable& names_of(std::string_view model_type);

}  // namespace ravine
