// The text and the options of a tokenizer training.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ravine {

// The text to learn from, as documents in order.
class TrainingText {
 public:
  virtual ~TrainingText() = default;
  virtual bool next(std::string& document) = 0;  // false at the end
  virtual std::vector<std::string> files() = 0;  // that are read, so that no output replaces one
  virtual const std::string& name() const = 0;   // for errors
};

// The defaults are Llama's: SentencePiece BPE with byte fallback, single digits, unchanged text, unk 0, bos 1, eos 2.
struct TokenizerTraining {
  std::string output;  // folder; created if needed
  // Replaces a tokenizer in `output`; otherwise an existing tokenizer, or one of a model, is a UserError.
  bool overwrite = false;
  int64_t vocabulary = 8192;         // total number of pieces; small texts may give fewer
  std::string type = "bpe";          // bpe | unigram (tokenizer.model) | byte-bpe (tokenizer.json)
  std::vector<std::string> symbols;  // always one piece each
  std::vector<std::string>
      special;  // also one piece each, and special tokens: found anywhere in text, and decoding can omit them
  int64_t max_bytes = int64_t{256} << 20;  // of text to learn from, from its start; takes about 20 times as much memory
  int threads = 0;                         // of bpe and unigram; 0: thread_count()
  // of bpe and unigram
  std::string normalization = "identity";  // identity | nmt_nfkc
  double character_coverage = 0.9995;      // part of the text's characters that get their own piece
  bool byte_fallback = true;               // other characters become byte pieces instead of unk
  bool split_digits = true;
  bool add_dummy_prefix = true;  // a space before the text
  // of byte-bpe
  std::string pattern = "gpt2";  // gpt2 | llama3 | qwen2: how text is split into words
  int64_t min_frequency = 2;     // of a pair that becomes a piece
};

struct TrainedTokenizer {
  int64_t vocabulary = 0;        // number of pieces
  int64_t lines = 0, bytes = 0;  // of text that was read (byte-bpe: documents)
  bool cut_off = false;          // max_bytes ended the text
};

}  // namespace ravine
