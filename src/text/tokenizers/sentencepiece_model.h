// A SentencePiece model file. Its bytes are checked here before the library reads them, because the library trusts
// them.
#pragma once
#include <sentencepiece_processor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/sentencepiece_words.h"

namespace ravine {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, represents a space in pieces

enum class PieceType : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// A piece of a SentencePiece vocabulary.
struct SentencePiece {
  std::string text;
  PieceType type = PieceType::normal;
  uint8_t byte = 0;  // the byte that a piece of type `byte` represents
};

struct SentencePieceModel {
  std::vector<SentencePiece> pieces;  // by id
  std::string algorithm;              // "bpe", "unigram", "word", "char"
  std::string unk_surface = " \xE2\x81\x87 ";
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, byte_fallback = false;
  // has_rules: normalization changes characters. The other two are fields of the model file.
  bool has_rules = false, escape_whitespaces = true, whitespace_as_suffix = false;
  std::string rules;      // the table of the normalization rules (text/tokenizers/precompiled.h); empty: none
  uint64_t checksum = 0;  // checksum of the file's bytes
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor;
  // Encodes text in parts, which is faster. Null if text cannot be cut: Unigram, and models that change characters.
  std::unique_ptr<SentencePieceWords> words;

  std::vector<int32_t> encode(std::string_view text) const;
  // Sets `ids` to the ids of the whole text, encoded by the SentencePiece library without cutting it into parts.
  void encode_whole(std::string_view text, std::vector<int32_t>& ids) const;
};

// Return the SentencePiece model in a file, or in the bytes of a file. dummy_prefix: false puts no space before a text,
// regardless of the file; true follows the file. Any damage is a UserError that names the file (`path` or `where`);
// nothing is printed and nothing aborts.
SentencePieceModel load_sentencepiece(const std::string& path, bool dummy_prefix = true);
SentencePieceModel parse_sentencepiece(std::string bytes, const std::string& where, bool dummy_prefix = true);

// Returns the piece of an id; an id outside the vocabulary is a UserError that names `where`.
const SentencePiece& piece_of(const SentencePieceModel& model, int32_t id, const std::string& where);

// Decodes pieces to text as Decode() of the SentencePiece library, but one piece at a time.
class PieceJoiner {
 public:
  explicit PieceJoiner(const SentencePieceModel& model) : model_(&model) {}
  void feed(const SentencePiece& piece, std::string& out);
  void feed_literal(std::string_view text, std::string& out);  // appends a text that is no piece, unchanged
  // Appends the text that was not final yet. Afterwards a new text can be decoded.
  void finish(std::string& out);

 private:
  void begin_piece(std::string& out);
  void take(std::string_view text, std::string& out);
  const SentencePieceModel* model_;
  std::string bytes_;     // of an incomplete character
  bool at_begin_ = true;  // a leading space mark must still be dropped
  bool mark_seen_ = false, any_ = false;
};

}  // namespace ravine
