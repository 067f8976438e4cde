// The interface of tokenizers: text to token ids and back. A tokenizer is immutable after it is opened; its const
// functions are thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

struct SpecialTokens {
  std::optional<int32_t> bos, eos, pad, unk;
};

// The decoding of one sequence of ids, one id at a time (Tokenizer::start_decoding). Text is returned as soon as it is
// final, in whole UTF-8 characters. Bytes that are not a character become U+FFFD.
class Decoding {
 public:
  virtual ~Decoding() = default;
  // Decodes the next id, and appends to `out` the text that is final now; it may be empty. An id outside the vocabulary
  // is a UserError.
  virtual void feed(int32_t id, std::string& out) = 0;
  virtual void finish(std::string& out) = 0;  // appends the text that was not final yet; the last call
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string kind() const = 0;      // "sentencepiece (bpe)", "tokenizer.json (BPE)"
  virtual int64_t size() const = 0;          // ids are in [0, size())
  virtual uint64_t fingerprint() const = 0;  // a checksum of the rules: tokenizers with equal ones give equal ids
  // Encodes a text. Bytes that are not UTF-8 are replaced by U+FFFD. add_special: adds the tokens that the tokenizer's
  // settings put around a text (bos, eos). Special strings in the text are always matched.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special) const = 0;
  virtual std::unique_ptr<Decoding> start_decoding(bool skip_special) const = 0;
  // Returns the text of an id as the vocabulary spells it. An id outside the vocabulary is a UserError.
  virtual std::string id_to_piece(int32_t id) const = 0;
  const SpecialTokens& special() const { return special_; }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

 protected:
  SpecialTokens special_;
};

// Decodes ids as they arrive. The concatenated pieces are equal to Tokenizer::decode() of all ids, with one exception:
// with skip_special false, Llama's legacy rule puts a space before text that precedes a special token; this space is
// left out here.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(&tokenizer), skip_special_(skip_special), decoding_(tokenizer.start_decoding(skip_special)) {}
  std::string next(int32_t id);  // decodes an id, and returns the text that is final now; may be empty
  std::string finish();          // returns the text that was not final yet; the last call
  // Returns the text that is not final yet (such as an incomplete character of byte tokens), as if the ids ended here.
  // next() and finish() do not return it again. Called after a prompt, it separates the text of the prompt from the
  // text after it.
  std::string settle();

 private:
  std::string new_text(std::string out);
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::unique_ptr<Decoding> decoding_;
  std::vector<int32_t> ids_;
  size_t certain_ = 0;   // bytes that decoding_ has returned
  std::string settled_;  // returned by settle(), and still to be returned by decoding_
};

}  // namespace ravine
