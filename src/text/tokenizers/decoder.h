// The `decoder` of a tokenizer.json: from the strings of tokens to text, token by token.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/json_view.h"

namespace ravine {

// One decoder at work. It hears tokens one by one, or (behind a Fuse or ByteLevel, where Hugging Face has one long string)
// parts of that string as they become known, and hands on what is certain.
class DecoderStep {
 public:
  using Emit = std::function<void(std::string_view)>;
  virtual ~DecoderStep() = default;
  virtual void feed(std::string_view text, const Emit& emit) = 0;
  virtual void finish(const Emit& emit) { static_cast<void>(emit); }
  void allow(size_t most) { most_ = most; }

 protected:
  size_t most() const { return most_; }  // bytes that a text it makes may have

 private:
  size_t most_ = 0;
};

// The decoders of one text, in order. All that a step hands on, and all that comes out, has at most 64 bytes per byte of the
// tokens so far (kDecodedSlack on top); more is a UserError, before it is held.
class DecoderRun {
 public:
  void token(std::string_view text, std::string& out);
  void finish(std::string& out);  // what was held back; nothing may follow

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

// Any of: ByteLevel Metaspace ByteFallback Fuse Strip Replace WordPiece BPEDecoder Sequence. Another type is refused by
// name, and so are more than kMostParts.
Decoder read_decoder(const JsonView& json);

}  // namespace ravine
