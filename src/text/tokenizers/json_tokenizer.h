// Tokenizers of the Hugging Face tokenizers library: tokenizer.json, and the older files that say the same.
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

// All that a tokenizer.json describes; each part may also be made by hand.
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
  bool split_special = false;  // special tokens in the text are ordinary text
  SpecialTokens special;
};

// Reads a tokenizer.json. `truncation` and `padding` do not apply here, as in Transformers unless asked for. What is not
// understood is a UserError that names file and field.
TokenizerParts read_tokenizer_json(const std::string& bytes, const std::string& where);

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts);

// A tokenizer.json by itself (also .xz, .gz, .zst).
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::string& path);

}  // namespace ravine
