// A sample as a person reads it: its text, with what is learned told apart from what is only read.
#pragma once
#include <string>

#include "data/sample.h"
#include "text/tokenizer.h"

namespace ravine {

enum class Marks { none, brackets, colours };

// Segments one behind the other under a line each when there are several; padding is left out. A token is learned when the
// column before it predicts it: green in colours, between ⟦ and ⟧ in brackets (nothing is marked when all but the first token
// of each segment is learned). Without a tokenizer, ids.
std::string sample_text(const Sample& sample, const Tokenizer* tokenizer, Marks marks);

}  // namespace ravine
