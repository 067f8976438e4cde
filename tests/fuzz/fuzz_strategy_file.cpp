// Any bytes as a strategy file of MindSpore: refused with a UserError, or every dim is cut into one part to a million.
#include <cstdlib>

#include "base/error.h"
#include "io/convert/mindformers_strategy.h"
#include "scratch.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const auto& [name, cuts] : parse_mindformers_strategy(text_of(data, size), "input"))
      for (const int64_t n : cuts)
        if (n < 1 || n > 1 << 20) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}
