// Makes a SentencePiece tokenizer from text.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ravine {

// The defaults are Llama's: BPE with byte fallback, single digits, text as it is, unk 0, bos 1, eos 2.
struct TokenizerTraining {
  std::vector<std::string> input;          // files, globs, folders as in data/source.h
  std::string text_key = "text";           // of .jsonl
  std::string output;                      // folder; made if need be
  int64_t vocabulary = 8192;               // pieces in all; small texts may give fewer
  std::string type = "bpe";                // bpe | unigram
  std::string normalization = "identity";  // identity | nmt_nfkc
  double character_coverage = 0.9995;      // share of the text's characters that get a piece of their own
  bool byte_fallback = true;               // other characters become byte pieces instead of unk
  bool split_digits = true;
  bool add_dummy_prefix = true;            // a space before the text
  std::vector<std::string> symbols;        // always one piece each
  int64_t max_bytes = int64_t{256} << 20;  // of text to learn from, the first so many; takes some 20 times as much memory
  int threads = 0;                         // 0: the cores of this machine
};

struct TrainedTokenizer {
  int64_t vocabulary = 0;        // pieces it has
  int64_t lines = 0, bytes = 0;  // of text that it learned from
  bool cut_off = false;          // max_bytes ended the text
};

// Writes tokenizer.model, tokenizer_config.json and special_tokens_map.json into `output`; Transformers' LlamaTokenizer loads
// that folder. The same text and options give the same model. Wrong options and texts too small are UserErrors, with nothing
// written. Blocks until done.
TrainedTokenizer train_tokenizer(const TokenizerTraining& options);

}  // namespace ravine
