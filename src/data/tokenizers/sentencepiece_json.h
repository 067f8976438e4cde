// A SentencePiece model as the tokenizer.json of the Hugging Face library, for readers that have no SentencePiece (Transformers 5 and on).
#pragma once
#include <optional>
#include <string>

#include "data/tokenizers/sentencepiece_model.h"

namespace ravine {

// The file's text: the same ids and the same decodings, leading spaces included. The one difference is the library's own: behind a control piece
// that is spelled out within a text it puts a space mark, as at the beginning. bos: put before each text. Nothing for what has no counterpart
// there: models of words or characters, rules that change characters, marks behind words.
// Merges are ordered by the score of what they make, which is the order in which SentencePiece's BPE joins.
std::optional<std::string> sentencepiece_json(const SentencePieceModel& model, bool bos);

}  // namespace ravine
