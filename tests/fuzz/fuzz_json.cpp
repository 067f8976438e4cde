// Any bytes as a JSON document such as config.json give a UserError, or a document that is equal after writing and
// reading.
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Json document;
  try {
    document = parse_json({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const UserError&) {
    return 0;
  }
  const std::string text = document.dump();
  if (parse_json(text, "again").dump() != text) std::abort();
  return 0;
}
