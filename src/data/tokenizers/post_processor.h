// The `post_processor` of a tokenizer.json: the special tokens around a text.
#pragma once
#include <cstdint>
#include <vector>

#include "data/tokenizers/json_view.h"

namespace ravine {

struct PostProcessor {
  std::vector<int32_t> before, after;
};

// Any of: TemplateProcessing (its `single`) ByteLevel BertProcessing RobertaProcessing Sequence. Another type is refused by name.
PostProcessor read_post_processor(const JsonView& json);

}  // namespace ravine
