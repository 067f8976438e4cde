#include "text/training/trainer.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "files/file_set.h"
#include "files/same_path.h"
#include "files/tokenizer_files.h"
#include "text/tokenizer_set.h"
#include "text/training/byte_bpe_trainer.h"
#include "text/training/sentencepiece_trainer.h"

namespace ravine {

namespace {

void check(const TokenizerTraining& o) {
  auto wrong = [](const std::string& key, const std::string& rule) {
    throw UserError(fmt::format("wrong value of --{}", key), "tokenizer train", rule, fmt::format("write --{} so", key));
  };
  if (o.output.empty()) wrong("output", "name the folder to write");
  bool bytes = o.type == "byte-bpe";
  if (o.type != "bpe" && o.type != "unigram" && !bytes)
    wrong("type", fmt::format("bpe, unigram or byte-bpe, got '{}'", o.type));
  if (bytes && o.pattern != "gpt2" && o.pattern != "llama3" && o.pattern != "qwen2")
    wrong("pattern", fmt::format("gpt2, llama3 or qwen2, got '{}'", o.pattern));
  if (bytes && o.min_frequency < 1) wrong("min-frequency", fmt::format("at least 1, got {}", o.min_frequency));
  if (o.normalization != "identity" && o.normalization != "nmt_nfkc")
    wrong("normalization", fmt::format("identity or nmt_nfkc, got '{}'", o.normalization));
  if (!(o.character_coverage >= 0.98 && o.character_coverage <= 1))  // SentencePiece's own bounds
    wrong("character-coverage", fmt::format("0.98 <= share <= 1, got {}", o.character_coverage));
  int64_t least =
      (bytes ? 1 : 4) + (o.byte_fallback || bytes ? 256 : 0) + static_cast<int64_t>(o.symbols.size() + o.special.size());
  if (o.vocabulary < least || o.vocabulary > 1 << 22)
    throw UserError(fmt::format("--vocab-size is {}", o.vocabulary), "tokenizer train",
                    fmt::format("bytes, special tokens and symbols are pieces too, so it is {} to {}", least, 1 << 22),
                    fmt::format("write --vocab-size {}", o.vocabulary < least ? std::max<int64_t>(least, 1000) : 1 << 22));
  for (const auto& [name, list] : {std::pair("symbols", &o.symbols), {"special-tokens", &o.special}})
    for (const auto& s : *list)
      if (s.empty() || s.find_first_of(std::string("\"\n\0", 3)) != std::string::npos ||
          find_invalid_utf8(s) != std::string::npos)
        wrong(name,
              fmt::format("a {} is UTF-8, not empty, without quotes and line ends", list == &o.special ? "token" : "symbol"));
  for (const auto& s : o.special)
    if (std::find(o.symbols.begin(), o.symbols.end(), s) != o.symbols.end() ||
        std::count(o.special.begin(), o.special.end(), s) > 1 || (!bytes && (s == "<unk>" || s == "<s>" || s == "</s>")))
      wrong("special-tokens", fmt::format("'{}' is a token already", s));
}

// Refuses to replace a tokenizer: models that were trained with it would become useless.
void refuse_tokenizer(const TokenizerTraining& o, TrainingText& text) {
  std::error_code ec;
  for (const std::string& read : text.files())
    for (const char* name : kTokenizerFiles)
      if (const auto file = std::filesystem::path(o.output) / name; same_path(read, file.string()))
        throw UserError("a text has the name of a file of the tokenizer", read,
                        fmt::format("--output {} would replace or remove {}, which is an input", o.output, name),
                        "choose another --output");
  for (const char* name : kTokenizerFiles)
    if (const auto path = std::filesystem::path(o.output) / name;
        !o.overwrite && std::filesystem::exists(std::filesystem::symlink_status(path, ec)))
      throw UserError("output exists", path.string(), "a tokenizer is there already, and nothing is overwritten unasked",
                      "choose another --output, or add --overwrite");
  refuse_folders(o.output, {std::begin(kTokenizerFiles), std::end(kTokenizerFiles)});
}

}  // namespace

TrainedTokenizer train_tokenizer(const TokenizerTraining& o, TrainingText& text) {
  check(o);
  finish_file_set(tokenizer_journal(o.output), tokenizer_set());
  refuse_tokenizer(o, text);
  return o.type == "byte-bpe" ? train_byte_bpe(o, text) : train_sentencepiece(o, text);
}

}  // namespace ravine
