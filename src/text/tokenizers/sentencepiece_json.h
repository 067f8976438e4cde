// Writes a SentencePiece model as a tokenizer.json, for readers without SentencePiece (Transformers from 5).
#pragma once
#include <map>
#include <optional>
#include <string>

namespace ravine {

struct SentencePieceModel;

// Returns a tokenizer.json with the ids and decodings of a SentencePiece model; nothing if the format cannot express
// the model: models of words or characters, marks after words, rules that change characters together with symbols. bos:
// the bos token is put before each text. One difference is the library's (Hugging Face tokenizers): after a control
// piece that is spelled out in a text it puts a space mark, as at the beginning. Rules (NFKC) become the library's
// Precompiled, which looks up clusters of characters, SentencePiece the longest match: combining marks may differ.
// Merges are ordered by the score of their result, the order in which SentencePiece's BPE joins.
std::optional<std::string> sentencepiece_json(const SentencePieceModel& model, bool bos);

// Returns the files, as name and text, that readers without SentencePiece need in a folder with a tokenizer.model of
// Llama's kind and no tokenizer.json. tokenizer.json gives the ids of open_tokenizer(folder), by the rules of
// LlamaTokenizer, legacy or not. tokenizer_config.json lets readers use that file unchanged. Empty if nothing is
// missing or the format cannot express the model.
std::map<std::string, std::string> missing_tokenizer_files(const std::string& folder);

}  // namespace ravine
