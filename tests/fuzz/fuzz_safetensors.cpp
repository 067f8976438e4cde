// Any bytes as a safetensors file: refused with a UserError, or every tensor lies inside the file.
#include <cstdlib>

#include "base/error.h"
#include "files/safetensors.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const SafetensorsHeader header = parse_safetensors_header(file, static_cast<int64_t>(size), "input");
    int64_t at = 0;
    for (const TensorInfo& t : header.tensors) {
      if (t.begin != at || t.end - t.begin != t.shape.count() * size_of(t.dtype)) std::abort();
      at = t.end;
    }
    if (header.data_begin + at != static_cast<int64_t>(size)) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}
