// Launch scripts: nothing that a script says takes more memory or time than it is long, and what is wrong is said.
#include "dialects/launch_script.h"

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    ravine::launched_program(ravine::parse_launch_script(text, "fuzz.sh"));
  } catch (const ravine::UserError&) {
  }
  return 0;
}
