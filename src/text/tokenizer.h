// Text to token ids and back. Tokenizers do not change after they were opened; their const functions may be called from
// several threads at once.
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

// Turns ids into text one at a time. Text is handed out as soon as it is certain and never in half a UTF-8 character;
// bytes that make no character become U+FFFD.
class Decoding {
 public:
  virtual ~Decoding() = default;
  virtual void feed(int32_t id, std::string& out) = 0;  // appends to out; an id outside the vocabulary is a UserError
  virtual void finish(std::string& out) = 0;            // appends what was held back
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string kind() const = 0;      // "sentencepiece (bpe)", "tokenizer.json (BPE)"
  virtual int64_t size() const = 0;          // ids are in [0, size())
  virtual uint64_t fingerprint() const = 0;  // differs when the same text may give other ids
  // Text that is not UTF-8 is taken with U+FFFD in place of its bad bytes. `add_special` puts the tokens around it that
  // the tokenizer's own settings ask for (bos, eos). Special strings in the text are matched in either case.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special) const = 0;
  virtual std::unique_ptr<Decoding> start_decoding(bool skip_special) const = 0;
  virtual std::string id_to_piece(int32_t id) const = 0;  // as the vocabulary spells it; UserError outside of it
  const SpecialTokens& special() const { return special_; }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

 protected:
  SpecialTokens special_;
};

// Decodes ids as they arrive. The pieces put together equal Tokenizer::decode of all ids; the one exception is Llama's legacy
// rule with skip_special false, which puts a space in front of text that stands before a special token: here it is left out.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(&tokenizer), skip_special_(skip_special), decoding_(tokenizer.start_decoding(skip_special)) {}
  std::string next(int32_t id);  // the text that became certain, perhaps none
  std::string finish();          // the rest; nothing may follow
  // What is held back (a byte token whose run may go on) as it stands in the text of the ids so far; it does not come again. So
  // what comes before and behind a border of ids is told apart: what follows a prompt is the text of all ids without that of
  // the prompt's.
  std::string settle();

 private:
  std::string new_text(std::string out);
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::unique_ptr<Decoding> decoding_;
  std::vector<int32_t> ids_;
  size_t certain_ = 0;   // bytes that decoding_ has given
  std::string settled_;  // given by settle(), still to come from decoding_
};

}  // namespace ravine
