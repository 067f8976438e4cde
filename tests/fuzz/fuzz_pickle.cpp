// Any bytes as a pickle: refused with a UserError, or a tree whose every index names a value.
#include <cstdlib>

#include "base/error.h"
#include "files/pickle.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Pickle p(std::as_bytes(std::span(data, size)), "input");
    if (p.size() > size || p.root() >= p.values()) std::abort();
    for (Pickle::Ref v = 0; v < p.values(); ++v) {
      for (Pickle::Ref i : p.items(v))
        if (i >= p.values()) std::abort();
      if (p.describe(v).empty()) std::abort();
      if (const auto* fields = p.fields(v); fields && fields->size() % 2 != 0) std::abort();
      p.find(v, "model");
    }
  } catch (const UserError&) {
  }
  return 0;
}
