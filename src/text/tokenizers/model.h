// The `model` of a tokenizer.json: encodes one word as ids.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizers/json_view.h"
#include "text/tokenizers/vocabulary.h"

namespace ravine {

// The memory that a TokenModel needs to encode words, kept from word to word. Each thread has its own.
struct ModelScratch {
  virtual ~ModelScratch() = default;
};

// The model of a tokenizer.json: encodes one word as ids.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual std::string kind() const = 0;  // "BPE"
  virtual std::unique_ptr<ModelScratch> scratch() const { return std::make_unique<ModelScratch>(); }
  // Appends the ids of a word to `ids`. word: valid UTF-8, or any bytes if the model was read with `bytes`. A word that
  // the model cannot encode gets the unknown token; without one it is a UserError.
  virtual void encode(std::string_view word, std::vector<int32_t>& ids, ModelScratch& scratch) const = 0;
  // Returns the vocabulary. Its texts are spelled as in the file.
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

// Reads the `model` of a tokenizer.json: BPE, Unigram or WordPiece; another type is a UserError. bytes: true if words
// are bytes, which the vocabulary spells with the characters of ByteAlphabet.
std::unique_ptr<TokenModel> read_model(const JsonView& json, bool bytes);

// Returns merges in the form of tokenizer.json: texts "a b", which every version of Hugging Face's tokenizers reads. If
// a part has a space, or looks like a comment, all merges are pairs, which versions since 0.20 read.
Json merges_json(const std::vector<std::pair<std::string, std::string>>& merges);

struct BpeOptions {
  std::string unk_token, prefix, suffix;  // "": none
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
  bool bytes = false;
};
// Returns a BPE model. merges: the pairs of pieces that are joined, in descending priority. where: the file, for
// errors.
std::unique_ptr<TokenModel> make_bpe(Vocabulary vocabulary,
                                     const std::vector<std::pair<std::string_view, std::string_view>>& merges,
                                     const BpeOptions& options, const std::string& where);
std::unique_ptr<TokenModel> make_unigram(const JsonView& json);
std::unique_ptr<TokenModel> make_word_piece(Vocabulary vocabulary, std::string unk_token, const std::string& prefix,
                                            int64_t longest, const std::string& where);

}  // namespace ravine
