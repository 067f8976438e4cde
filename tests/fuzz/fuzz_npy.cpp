// Any bytes as a .npy file give a UserError, or an array whose number of bytes fits its shape and type.
#include <cstdlib>

#include "base/error.h"
#include "files/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  try {
    const NpyArray a = parse_npy(std::as_bytes(std::span(data, size)), "fuzz");
    if (static_cast<int64_t>(a.bytes.size()) != a.shape.count() * size_of(a.dtype)) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}
