// The `decoder` of a tokenizer.json: from the strings of tokens to text, token by token.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/json_view.h"

namespace ravine {

// One decoder at work. It hears tokens one by one, or (behind a Fuse or ByteLevel, where Hugging Face has one long string)
// parts of that string as they become known, and hands on what is certain.
class DecoderStep {
 public:
  using Emit = std::function<void(std::string_view)>;
  virtual ~DecoderStep() = default;
  virtual void feed(std::string_view text, const Emit& emit) = 0;
  virtual void finish(const Emit& emit) { static_cast<void>(emit); }
};

// The decoders of one text, in order.
class DecoderRun {
 public:
  void token(std::string_view text, std::string& out);
  void finish(std::string& out);  // what was held back; nothing may follow

 private:
  friend class Decoder;
  void feed(size_t step, std::string_view text, std::string& out);
  std::vector<std::unique_ptr<DecoderStep>> steps_;
  bool spaces_ = false, any_ = false;  // without a decoder, tokens are joined by spaces
};

class Decoder {
 public:
  DecoderRun start() const;

 private:
  friend Decoder read_decoder(const JsonView& json);
  using Make = std::function<std::unique_ptr<DecoderStep>()>;
  static void read(const JsonView& json, int depth, bool& whole, std::vector<Make>& makers);
  std::vector<Make> makers_;
  bool none_ = true;
};

// Any of: ByteLevel Metaspace ByteFallback Fuse Strip Replace WordPiece BPEDecoder CTC Sequence. Another type is refused by name.
Decoder read_decoder(const JsonView& json);

}  // namespace ravine
