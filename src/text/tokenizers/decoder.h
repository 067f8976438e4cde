// The `decoder` of a tokenizer.json: turns the strings of tokens into text, token by token.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/json_view.h"

namespace ravine {

// One step of the `decoder` of a tokenizer.json, while one text is decoded. It receives the strings of single tokens.
// After a Fuse or ByteLevel step, where Hugging Face has one long string, it receives parts of this string as they
// become known. It passes text that is final to `emit`.
class DecoderStep {
 public:
  using Emit = std::function<void(std::string_view)>;
  virtual ~DecoderStep() = default;
  virtual void feed(std::string_view text, const Emit& emit) = 0;
  virtual void finish(const Emit& emit) { static_cast<void>(emit); }
  void allow(size_t most) { most_ = most; }

 protected:
  size_t most() const { return most_; }  // the largest number of bytes that this step may emit at once

 private:
  size_t most_ = 0;
};

// The decoding of one text: all steps of a Decoder, in order. The text between the steps, and the result, have at most
// 64 bytes per byte of the tokens so far, plus kDecodedSlack. A longer text is a UserError, before it is stored.
class DecoderRun {
 public:
  void token(std::string_view text, std::string& out);
  void finish(std::string& out);  // appends the text that was not final yet; the last call

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

// Reads the `decoder` of a tokenizer.json: ByteLevel Metaspace ByteFallback Fuse Strip Replace WordPiece BPEDecoder
// Sequence. Another type, and more than kMostParts steps, are UserErrors.
Decoder read_decoder(const JsonView& json);

}  // namespace ravine
