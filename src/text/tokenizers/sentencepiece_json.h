// A SentencePiece model as the tokenizer.json of the Hugging Face library, for readers that have no SentencePiece (Transformers
// 5 and on).
#pragma once
#include <map>
#include <optional>
#include <string>

namespace ravine {

struct SentencePieceModel;

// The file's text: the same ids and the same decodings, leading spaces included. The one difference is the library's own:
// behind a control piece that is spelled out within a text it puts a space mark, as at the beginning. bos: put before each
// text. Nothing for what has no counterpart there: models of words or characters, marks behind words, rules that change
// characters together with symbols. Rules (NFKC) become the library's Precompiled, which looks them up by cluster of characters
// where SentencePiece takes the longest that fits: combining marks may differ. Merges are ordered by the score of what they
// make, which is the order in which SentencePiece's BPE joins.
std::optional<std::string> sentencepiece_json(const SentencePieceModel& model, bool bos);

// What a folder with a tokenizer.model of Llama's kind and no tokenizer.json lacks for readers without SentencePiece, as name
// and text of files: tokenizer.json with the ids that open_tokenizer(folder) gives, by the rules of LlamaTokenizer, legacy or
// not; and tokenizer_config.json, which lets readers take that file as it is. Empty where nothing is missing, or there is no
// counterpart.
std::map<std::string, std::string> missing_tokenizer_files(const std::string& folder);

}  // namespace ravine
