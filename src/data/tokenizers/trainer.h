// Makes a tokenizer from text.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ravine {

struct FileSetKind;

// The defaults are Llama's: SentencePiece BPE with byte fallback, single digits, text as it is, unk 0, bos 1, eos 2.
struct TokenizerTraining {
  std::vector<std::string> input;    // files, globs, folders as in data/source.h
  std::string text_key = "text";     // of .jsonl
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

// Writes tokenizer.model, tokenizer_config.json, special_tokens_map.json and, where the model has a counterpart
// (sentencepiece_json.h), tokenizer.json into `output`, where Transformers loads them; for byte-bpe tokenizer.json and
// tokenizer_config.json, which Transformers' PreTrainedTokenizerFast loads. The same text and options give the same tokenizer,
// with any number of threads. Wrong options and texts too small are UserErrors, with nothing written. Blocks until done.
TrainedTokenizer train_tokenizer(const TokenizerTraining& options);

// Files of a tokenizer, by name, under their names in options.output all together (files/file_set.h); with options.overwrite
// whatever else of a tokenizer lies there goes.
void write_tokenizer(const TokenizerTraining& options, const std::vector<std::pair<std::string, std::string>>& files);
// The folder in `folder` where they wait for their names.
std::string tokenizer_journal(const std::string& folder);
FileSetKind tokenizer_set();

// The part of train_tokenizer for type byte-bpe; options are checked already.
TrainedTokenizer train_byte_bpe(const TokenizerTraining& options);

// The merges that the trainer of Hugging Face's tokenizers finds (tokenizers/src/models/bpe/trainer.rs): the most frequent pair
// first, of those the one with the lowest ids. Words are bytes; ids 0 to 255 stand for bytes in the order of their characters,
// and each merge makes the next id, or that of a token made before of the same bytes.
struct BpeMerge {
  int32_t left, right, becomes;
};
std::vector<BpeMerge> learn_merges(const std::vector<std::pair<std::string, int64_t>>& words,
                                   const std::vector<int32_t>& id_of_byte, int64_t tokens, int64_t min_frequency);

}  // namespace ravine
