// Any bytes as a fixed batch file: a UserError, or batches whose ids lie in the vocabulary.
#include "data/open_datasets.h"

#include "base/error.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  static const Scratch scratch;
  DatasetOptions options;
  options.train = {{scratch.write("in.safetensors", text_of(data, size)), 1}};
  options.sequence_length = 4;
  options.vocabulary = 16;
  options.threads = 1;
  try {
    const Datasets sets = open_datasets(options, nullptr);
    if (sets.train->sample_count() < 1) std::abort();
    const Sample sample = sets.train->sample(0);
    for (int32_t id : sample.ids)
      if (id < 0 || id >= options.vocabulary) std::abort();
    for (int32_t label : sample.labels)
      if (label != kIgnored && (label < 0 || label >= options.vocabulary)) std::abort();
    for (const TokenSpan& s : sample.segments)
      if (s.begin < 0 || s.length < 1 || s.begin + s.length > 4) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}
