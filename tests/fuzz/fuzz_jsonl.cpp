// Lines of a jsonl file: a text or a UserError, nothing else.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "data/source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ravine::JsonlParser parser("text");
  try {
    auto text = parser.parse({reinterpret_cast<const char*>(data), size}, "fuzz:1");
    if (ravine::find_invalid_utf8(text) != std::string_view::npos) __builtin_trap();
  } catch (const ravine::UserError&) {
  }
  return 0;
}
