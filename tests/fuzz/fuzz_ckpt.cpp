// Any bytes as a MindSpore checkpoint: refused with a UserError, or every piece lies inside the file and they add up.
#include <cstdlib>

#include "base/error.h"
#include "files/mindspore_ckpt.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const CkptTensor& t : parse_ckpt(std::as_bytes(std::span(data, size)), "input")) {
      int64_t held = 0;
      for (const auto& [begin, bytes] : t.pieces) {
        if (begin < 0 || bytes < 0 || begin + bytes > static_cast<int64_t>(size)) std::abort();
        held += bytes;
      }
      if (held != t.shape.count() * size_of(t.dtype)) std::abort();
    }
  } catch (const UserError&) {
  }
  return 0;
}
