// The `post_processor` of a tokenizer.json: the special tokens around a text.
#pragma once
#include <cstdint>
#include <vector>

#include "text/tokenizers/json_view.h"

namespace ravine {

// The ids of the special tokens that a tokenizer puts before and after a text.
struct PostProcessor {
  std::vector<int32_t> before, after;
};

// Reads the `post_processor` of a tokenizer.json, and applies it to one text as in PyPI's tokenizers. Types are
// TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing and Sequence; another type is a UserError. A
// template uses its `single`. In a Sequence after a template of two pieces, a template uses its `pair`, with these
// pieces as A and B. After a template of more pieces, on which the library panics, a template is a UserError.
PostProcessor read_post_processor(const JsonView& json);

}  // namespace ravine
