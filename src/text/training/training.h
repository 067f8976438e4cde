// What a tokenizer is made from, and how.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ravine {

// Text to learn from, as documents in order.
class TrainingText {
 public:
  virtual ~TrainingText() = default;
  virtual bool next(std::string& document) = 0;  // false at the end
  virtual std::vector<std::string> files() = 0;  // that are read, so that none of them is replaced
  virtual const std::string& name() const = 0;   // for errors
};

// The defaults are Llama's: SentencePiece BPE with byte fallback, single digits, text as it is, unk 0, bos 1, eos 2.
struct TokenizerTraining {
  std::string output;                // folder; made if need be
  bool overwrite = false;            // replaces a tokenizer in `output`; else one there, or a model's, is a UserError
  int64_t vocabulary = 8192;         // pieces in all; small texts may give fewer
  std::string type = "bpe";          // bpe | unigram (tokenizer.model) | byte-bpe (tokenizer.json)
  std::vector<std::string> symbols;  // always one piece each
  std::vector<std::string>
      special;  // likewise, and special tokens: they are known wherever they stand in text, and decoding can leave them out
  int64_t max_bytes = int64_t{256} << 20;  // of text to learn from, the first so many; takes some 20 times as much memory
  int threads = 0;                         // 0: the cores of this machine (byte-bpe: those that parallel_for has)
  // of bpe and unigram
  std::string normalization = "identity";  // identity | nmt_nfkc
  double character_coverage = 0.9995;      // share of the text's characters that get a piece of their own
  bool byte_fallback = true;               // other characters become byte pieces instead of unk
  bool split_digits = true;
  bool add_dummy_prefix = true;  // a space before the text
  // of byte-bpe
  std::string pattern = "gpt2";  // gpt2 | llama3 | qwen2: how text is cut into words
  int64_t min_frequency = 2;     // of a pair that becomes a piece
};

struct TrainedTokenizer {
  int64_t vocabulary = 0;        // pieces it has
  int64_t lines = 0, bytes = 0;  // of text that it learned from (byte-bpe: documents)
  bool cut_off = false;          // max_bytes ended the text
};

}  // namespace ravine
