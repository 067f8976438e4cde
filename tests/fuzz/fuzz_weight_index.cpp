// Any text as the index of a sharded model: refused with a UserError, or every file is one of the same folder.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "io/open_weights.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const auto& [tensor, file] : parse_weight_index(std::string(reinterpret_cast<const char*>(data), size), "input"))
      if (file.empty() || file.find('/') != std::string::npos || file == "..") std::abort();
  } catch (const UserError&) {
  }
  return 0;
}
