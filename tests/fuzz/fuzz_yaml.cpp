// Any bytes as a config file: a UserError or a config that writes and reads back to the same text.
#include "base/error.h"
#include "config/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  std::string text(reinterpret_cast<const char*>(data), size);
  try {
    load_yaml(text, "fuzz.yaml");
    Config config = parse_config(text, "fuzz.yaml");
    std::string written = to_yaml(config);
    if (to_yaml(parse_config(written, "written.yaml")) != written) __builtin_trap();
  } catch (const UserError&) {
  }
  return 0;
}
