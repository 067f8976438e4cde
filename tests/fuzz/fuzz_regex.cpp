// Any bytes as a tokenizer's pattern and a text, separated by a zero byte, give a UserError, or matches within the
// text, in order.
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "scratch.h"
#include "text/tokenizers/regex.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  const std::string_view all = text_of(data, size);
  const size_t cut = all.find('\0');
  const std::string_view text = cut == std::string_view::npos ? "the river aaaaaaaaaaaaaaaa\n\n 12" : all.substr(cut + 1);
  if (find_invalid_utf8(all) != std::string_view::npos) return 0;
  static RegexScratch scratch;
  try {
    const Regex regex(all.substr(0, cut), "fuzz");
    size_t at = 0;
    each_match(regex, text, scratch, [&](size_t begin, size_t end) {
      if (begin < at || end < begin || end > text.size()) std::abort();
      at = end;
    });
  } catch (const UserError&) {
  }
  return 0;
}
