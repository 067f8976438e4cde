// Any bytes as a file of prompts; the first byte says which kind. A UserError, or prompts that are UTF-8.
#include "infer/prompts.h"

#include "base/error.h"
#include "base/text.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  static const Scratch scratch;
  if (size < 1) return 0;
  const std::string_view body = text_of(data + 1, size - 1);
  try {
    if (data[0] % 3 == 0) {
      read_prompt_ids(scratch.write("ids.json", body));
    } else {
      for (const PromptText& p : read_prompt_texts(scratch.write(data[0] % 3 == 1 ? "in.txt" : "in.jsonl", body), "text"))
        if (find_invalid_utf8(p.text) != std::string::npos) std::abort();
    }
  } catch (const UserError&) {
  }
  return 0;
}
