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
  virtual bool next(std::string& document) = 0;  // reads the next document; false at the end
  virtual std::vector<std::string> files() = 0;  // the files of the text: no output may replace one of them
  virtual const std::string& name() const = 0;   // the name of the text in errors
};

// The settings of train_tokenizer(). The defaults are Llama's: SentencePiece BPE with byte fallback, single digits,
// unchanged text, unk 0, bos 1, eos 2.
struct TokenizerTraining {
  std::string output;  // folder for the tokenizer; created if needed
  // Replaces a tokenizer in `output`; otherwise an existing tokenizer, or one of a model, is a UserError.
  bool overwrite = false;
  int64_t vocabulary = 8192;         // total number of pieces; small texts may give fewer
  std::string type = "bpe";          // bpe | unigram (tokenizer.model) | byte-bpe (tokenizer.json)
  std::vector<std::string> symbols;  // strings that are always one piece each
  // Special tokens, also one piece each: they are found anywhere in text, and decoding can omit them.
  std::vector<std::string> special;
  // Bytes of text to learn from, from its start. The training takes about 20 times as much memory.
  int64_t max_bytes = int64_t{256} << 20;
  int threads = 0;  // threads of bpe and unigram; 0: thread_count()
  // The next five are used by bpe and unigram only.
  std::string normalization = "identity";  // identity | nmt_nfkc
  double character_coverage = 0.9995;      // share of the text's characters that get their own piece
  bool byte_fallback = true;               // true: other characters become byte pieces instead of unk
  bool split_digits = true;                // true: each digit is a separate piece
  bool add_dummy_prefix = true;            // true: a space is put before a text
  // The next two are used by byte-bpe only.
  std::string pattern = "gpt2";  // gpt2 | llama3 | qwen2: how text is split into words
  int64_t min_frequency = 2;     // smallest number of occurrences of a pair that becomes a piece
};

// The result of train_tokenizer(), which has written the tokenizer to its folder.
struct TrainedTokenizer {
  int64_t vocabulary = 0;        // number of pieces
  int64_t lines = 0, bytes = 0;  // number of lines (byte-bpe: documents) and bytes of the text that was read
  bool cut_off = false;          // true: the text was longer than TokenizerTraining::max_bytes
};

}  // namespace ravine
