// Any bytes as a tokenizer.json give a UserError, or a tokenizer that encodes and decodes without a fault. The stream
// decoder returns the same text as decode().
#include <cstdlib>

#include "base/error.h"
#include "text/tokenizers/json_tokenizer.h"
#include "text/unicode/unicode.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 16) return 0;
  static const auto classes = char_table();  // else each tokenizer would make it anew
  try {
    auto t = make_tokenizer(read_tokenizer_json(std::string(reinterpret_cast<const char*>(data), size), "input"));
    for (const char* text :
         {"the river", " a\n\n  b1 ", "e\xCC\x81\xE5\xB1\xB1\xF0\x9F\x98\x80", "\xFF\xC3", "aaaaaaaaab<s>ab", ""}) {
      auto ids = t->encode(text, true);
      for (int32_t id : ids)
        if (id < 0 || id >= t->size() + (1 << 24)) std::abort();
      std::erase_if(ids, [&](int32_t id) { return id >= t->size(); });  // the template may have unknown ids
      std::string whole = t->decode(ids, false);
      StreamDecoder decoder(*t, false);
      std::string parts;
      for (int32_t id : ids) parts += decoder.next(id);
      if (parts + decoder.finish() != whole) std::abort();
    }
  } catch (const UserError&) {
  }
  return 0;
}
