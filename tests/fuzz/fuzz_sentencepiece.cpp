// Any bytes as a SentencePiece model are refused by Ravine's checks, or the library can encode and decode with the
// model.
#include <cstdlib>

#include "base/error.h"
#include "text/tokenizers/sentencepiece_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (bool prefix : {true, false}) {
    try {
      const SentencePieceModel model = parse_sentencepiece(bytes, "fuzz", prefix);
      PieceJoiner joiner(model);
      std::string text;
      for (int32_t id : model.encode("Hello  world \xEF\xAC\x81 \xE4\xBD\xA0\xE5\xA5\xBD\n\t<s> 12"))
        joiner.feed(piece_of(model, id, "fuzz"), text);
      joiner.finish(text);
    } catch (const UserError&) {
    }
  }
  return 0;
}
