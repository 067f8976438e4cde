// The `decoder` of a tokenizer.json: turns the strings of tokens into text, token by token.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/json_view.h"

namespace ravine {

// One decoder of a text. It receives single tokens. After a Fuse or ByteLevel, where Hugging Face has one long string,
// it receives parts of this string as they become known. Text that is final is passed on.
class DecoderStep {
 public:
  using Emit = std::function<void(std::string_view)>;
  virtual ~DecoderStep() = default;
  virtual void feed(std::string_view text, const Emit& emit) = 0;
  virtual void finish(const Emit& emit) { static_cast<void>(emit); }
  void allow(size_t most) { most_ = most; }

 protected:
  size_t most() const { return most_; }  // limit of the bytes of a text that it makes

 private:
  size_t most_ = 0;
};

// The decoders of one text, in order. The text between the steps, and the result, have at most 64 bytes per byte of the
// tokens so far, plus kDecodedSlack. More is a UserError, before it is stored.
class DecoderRun {
 public:
  void token(std::string_view text, std::string& out);
  void finish(std::string& out);  // appends the text that was held back; the last call

 private:
  friend class Decoder;
  void feed(size_t step, std::string_view text, std::string& out);
  static constexpr size_t kDecodedSlack = 4096;
  size_t most() const { return 64 * given_ + kDecodedSlack; }
  std::vector<std::unique_ptr<DecoderStep>> steps_;
  size_t given_ = 0, out_bytes_ = 0;
  bool spaces_ = false, any_ = false;  // without a decoder, tokens are joined by spaces
};

class Decoder {
 public:
  DecoderRun start() const;

 private:
  friend Decoder read_decoder(const JsonView& json);
  using Make = std::function<std::unique_ptr<DecoderStep>()>;
  static void read(const JsonView& json, int depth, bool& whole, size_t& parts, std::vector<Make>& makers);
  std::vector<Make> makers_;
  bool none_ = true;
};

// Reads a decoder: ByteLevel Metaspace ByteFallback Fuse Strip Replace WordPiece BPEDecoder Sequence. Another type, and
// more than kMostParts, are UserErrors.
Decoder read_decoder(const JsonView& json);

}  // namespace ravine
