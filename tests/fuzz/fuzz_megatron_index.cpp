// Any text as the description of a tokenizer beside Megatron's index files: a UserError, or an identity that is JSON.
#include "base/error.h"
#include "base/json.h"
#include "data/megatron/index_cache.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  try {
    // An object stands for itself; anything else would be the name of a file.
    const std::string identity = tokenizer_identity("{" + std::string(text_of(data, size)));
    if (!identity.empty()) parse_json(identity, "identity");
  } catch (const UserError&) {
  }
  return 0;
}
