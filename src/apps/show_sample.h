// A sample as text, with the learned tokens marked.
#pragma once
#include <string>

#include "data/sample.h"
#include "text/tokenizer.h"

namespace ravine {

enum class Marks { none, brackets, colours };

// Returns the text of a sample, without padding; several segments follow each other, each with a heading. A token is
// learned if the previous column predicts it: green in colours, between ⟦ and ⟧ in brackets. With brackets,
// nothing is marked if all tokens of each segment but the first are learned. Without a tokenizer, ids are shown.
std::string sample_text(const Sample& sample, const Tokenizer* tokenizer, Marks marks);

}  // namespace ravine
