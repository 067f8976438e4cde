#include "text/tokenizers/sentencepiece_tokenizer.h"

#include "base/error.h"
#include "text/tokenizers/sentencepiece_model.h"

namespace ravine {

namespace {

class RawDecoding final : public Decoding {
 public:
  RawDecoding(const SentencePieceModel& model, const std::string& path) : model_(model), path_(path), joiner_(model) {}
  void feed(int32_t id, std::string& out) override { joiner_.feed(piece_of(model_, id, path_), out); }
  void finish(std::string& out) override { joiner_.finish(out); }

 private:
  const SentencePieceModel& model_;
  const std::string& path_;
  PieceJoiner joiner_;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& path) : path_(path), model_(load_sentencepiece(path)) {
    auto set = [](int id) { return id >= 0 ? std::optional<int32_t>(id) : std::nullopt; };
    special_ = {set(model_.processor->bos_id()), set(model_.processor->eos_id()), set(model_.processor->pad_id()),
                set(model_.processor->unk_id())};
  }
  std::string kind() const override { return fmt::format("sentencepiece ({})", model_.algorithm); }
  int64_t size() const override { return static_cast<int64_t>(model_.pieces.size()); }
  uint64_t fingerprint() const override { return model_.checksum; }
  std::vector<int32_t> encode(std::string_view text, bool) const override { return model_.encode(text); }
  std::unique_ptr<Decoding> start_decoding(bool) const override { return std::make_unique<RawDecoding>(model_, path_); }
  std::string id_to_piece(int32_t id) const override { return piece_of(model_, id, path_).text; }

 private:
  std::string path_;
  SentencePieceModel model_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(path);
}

}  // namespace ravine
