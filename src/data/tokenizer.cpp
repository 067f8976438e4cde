#include "data/tokenizer.h"

#include <filesystem>

#include "base/error.h"
#include "data/llama_tokenizer.h"
#include "data/sentencepiece_model.h"
#include "data/sentencepiece_tokenizer.h"

namespace ravine {

namespace fs = std::filesystem;

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  auto decoding = start_decoding(skip_special);
  for (int32_t id : ids) decoding->feed(id, out);
  decoding->finish(out);
  return out;
}

std::string StreamDecoder::next(int32_t id) {
  std::string out;
  decoding_->feed(id, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  decoding_->finish(out);
  return out;
}

namespace {

[[noreturn]] void refuse_json(const std::string& path) {
  throw UserError("this kind of tokenizer is not read yet", path, "tokenizer.json comes with a later release",
                  "give a SentencePiece tokenizer.model, or a folder that holds one");
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  std::error_code ec;
  if (fs::is_directory(path, ec)) {
    if (fs::exists(fs::path(path) / "tokenizer.model", ec)) return open_llama_tokenizer(path);
    if (fs::exists(fs::path(path) / "tokenizer.json", ec)) refuse_json((fs::path(path) / "tokenizer.json").string());
    throw UserError("no tokenizer in folder", path, "it must hold tokenizer.model", "name the file or folder of the tokenizer");
  }
  if (!fs::exists(path, ec))
    throw UserError("no such tokenizer", path, "it must be a tokenizer.model or a folder that holds one", "check the path");
  if (path.ends_with(".json") || path.ends_with(".json.xz")) refuse_json(path);
  return open_sentencepiece_tokenizer(path);
}

}  // namespace ravine
