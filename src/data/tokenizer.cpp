#include "data/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/missing_path.h"
#include "data/tokenizers/json_tokenizer.h"
#include "data/tokenizers/llama_settings.h"
#include "data/tokenizers/llama_tokenizer.h"
#include "data/tokenizers/sentencepiece_tokenizer.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "data/tokenizers/trainer.h"
#include "files/file_set.h"
#include "files/tokenizer_files.h"

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
  ids_.push_back(id);
  decoding_->feed(id, out);
  return new_text(std::move(out));
}

std::string StreamDecoder::finish() {
  std::string out;
  decoding_->finish(out);
  return new_text(std::move(out));
}

std::string StreamDecoder::settle() {
  std::string held = tokenizer_->decode(ids_, skip_special_);
  held.erase(0, std::min(held.size(), certain_));
  if (!held.starts_with(settled_)) return "";
  return held.substr(std::exchange(settled_, held).size());
}

// Without what settle() has given; where the text goes on otherwise (bytes that made no character do now), from there.
std::string StreamDecoder::new_text(std::string out) {
  certain_ += out.size();
  if (settled_.empty() || out.empty()) return out;
  auto same = static_cast<size_t>(std::mismatch(out.begin(), out.begin() + static_cast<ptrdiff_t>(std::min(out.size(), settled_.size())), settled_.begin()).first - out.begin());
  if (same == out.size() || same == settled_.size()) {
    settled_.erase(0, same);
  } else {
    while (same > 0 && (static_cast<unsigned char>(out[same]) & 0xc0) == 0x80) --same;
    settled_.clear();
  }
  return out.substr(same);
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  std::error_code ec;
  refuse_unfinished(tokenizer_journal(fs::is_directory(path, ec) ? path : folder_of(path)));
  if (fs::is_directory(path, ec)) {
    for (const char* inside : {"tokenizer", "model", "run/model"})
      if (const std::string there = (fs::path(path) / inside).string(); !has_tokenizer(path) && has_tokenizer(there))
        throw UserError("no tokenizer in folder", path, "a folder of a tokenizer holds its files itself", fmt::format("it lies in {}: name that", there));
    if (!has_tokenizer(path))
      throw UserError("no tokenizer in folder", path, "it must hold tokenizer.model, tokenizer.json, vocab.json with merges.txt, or vocab.txt",
                      "name the file or folder of the tokenizer");
    bool model = !find_in_folder(path, "tokenizer.model").empty(), json = !find_in_folder(path, "tokenizer.json").empty();
    if (model && (!json || is_llama_folder(path))) return open_llama_tokenizer(path);
    return open_tokenizer_folder(path);
  }
  if (!fs::exists(path, ec))
    throw UserError("no such tokenizer", path, "it must be a tokenizer.model, a tokenizer.json or a folder that holds one", missing_path_advice(path, Hub::models));
  std::string name = path;
  for (const char* suffix : {".xz", ".gz", ".zst"})
    if (name.ends_with(suffix)) name.resize(name.size() - std::string_view(suffix).size());
  if (name.ends_with(".json")) return open_tokenizer_json(path);
  return open_sentencepiece_tokenizer(path);
}

}  // namespace ravine
