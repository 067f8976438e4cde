// The `post_processor` of a tokenizer.json: the special tokens around a text.
#pragma once
#include <cstdint>
#include <vector>

#include "text/tokenizers/json_view.h"

namespace ravine {

struct PostProcessor {
  std::vector<int32_t> before, after;
};

// Any of: TemplateProcessing ByteLevel BertProcessing RobertaProcessing Sequence, as PyPI's tokenizers applies them to one
// text: a template takes its `single`, or, in a Sequence behind one of two pieces, its `pair` with these as A and B; behind one
// of more, on which the library panics, it is refused. Another type is refused by name.
PostProcessor read_post_processor(const JsonView& json);

}  // namespace ravine
