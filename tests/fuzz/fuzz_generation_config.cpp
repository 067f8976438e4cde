// Any JSON as a generation_config.json: a UserError, or values that generation can work with.
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"
#include "infer/generation_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  ModelFacts facts;
  facts.vocabulary = 300;
  facts.eos = {2, -1, 999};
  try {
    const GenerationDefaults d =
        parse_generation_config(parse_json({reinterpret_cast<const char*>(data), size}, "fuzz"), "fuzz", facts);
    for (int32_t id : d.end_ids)
      if (id < 0 || id >= facts.vocabulary) std::abort();
    const Processing& p = d.processing;
    if (!(p.temperature > 0) || !(p.repetition_penalty > 0) || !(p.top_p >= 0 && p.top_p <= 1)) std::abort();
    if (p.top_k < 0 || p.no_repeat_ngram < 0 || d.max_new_tokens.value_or(1) < 1 || d.max_length.value_or(1) < 1) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}
