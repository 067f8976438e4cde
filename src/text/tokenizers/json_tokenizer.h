// Tokenizers of the Hugging Face library tokenizers: tokenizer.json, and the older files with the same contents.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizers/added_vocabulary.h"
#include "text/tokenizers/decoder.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/post_processor.h"
#include "text/tokenizers/pre_tokenizer.h"

namespace ravine {

// The contents of a tokenizer.json; the parts can also be built by hand.
struct TokenizerParts {
  std::string where;  // the file, for errors
  uint64_t checksum = 0;
  std::unique_ptr<Normalizer> normalizer;  // may be null
  PreTokenizer pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  PostProcessor post_processor;
  bool has_post_processor = false;
  Decoder decoder;
  AddedVocabulary added;
  bool split_special = false;  // true: special tokens in a text are encoded as ordinary text
  SpecialTokens special;
};

// Parses the bytes of a tokenizer.json. where: the file, for errors. `truncation` and `padding` are ignored, as in
// Transformers by default. Unknown contents are a UserError that names file and field.
TokenizerParts read_tokenizer_json(const std::string& bytes, const std::string& where);

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts);

// Opens a single tokenizer.json (also .xz, .gz, .zst).
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::string& path);

}  // namespace ravine
