// The `post_processor` of a tokenizer.json: the special tokens around a text.
#pragma once
#include <cstdint>
#include <vector>

#include "text/tokenizers/json_view.h"

namespace ravine {

struct PostProcessor {
  std::vector<int32_t> before, after;
};

// Reads a post-processor: TemplateProcessing ByteLevel BertProcessing RobertaProcessing Sequence, applied to one text
// as in PyPI's tokenizers. A template uses its `single`. In a Sequence after a template of two pieces, it uses its
// `pair`, with these pieces as A and B. After a template of more pieces, on which the library panics, it is a
// UserError. Another type is a UserError.
PostProcessor read_post_processor(const JsonView& json);

}  // namespace ravine
