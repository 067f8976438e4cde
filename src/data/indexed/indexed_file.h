// Megatron's token files: PREFIX.bin holds the tokens back to back, PREFIX.idx says where sequences and documents begin.
// Layout of .idx (little-endian): "MMIDIDX\0\0", u64 version 1, u8 type, u64 sequences N, u64 entries D of the document array;
// N int32 lengths in tokens, N int64 byte offsets into .bin, D int64: 0, then the sequence after each document; perhaps N int8
// modes (multimodal data). Source: megatron/core/datasets/indexed_dataset.py.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/mapped_file.h"

namespace ravine {

struct FileSetKind;

// By the codes of Megatron-core; its forerunner of before 2021 had 6 and 7 the other way round.
enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, f64 = 6, f32 = 7, u16 = 8 };

int64_t size_of(TokenType t);
const char* name(TokenType t);                // "uint16", as NumPy says
TokenType smallest_type(int64_t vocabulary);  // as Megatron chooses: uint16 below 65500 tokens, else int32

inline constexpr int64_t kIndexHeader = 34;         // bytes before the lengths
inline constexpr char kIndexMagic[] = "MMIDIDX\0";  // with its terminator nine bytes

// Where a new pair waits for its names (files/file_set.h).
std::string indexed_journal(const std::string& prefix);
FileSetKind indexed_set(const std::string& prefix);

// Whether `path` is such a prefix: PREFIX, PREFIX.bin or PREFIX.idx with both files there. The prefix without the suffix. A
// pair that is just being replaced, or was when its writer was killed, is a UserError.
bool is_indexed_prefix(const std::string& path, std::string* prefix = nullptr);
// The first prefix that goes on from this one as preprocess names its files (PATH_text_document); "" if there is none.
std::string near_indexed_prefix(const std::string& path);
// The prefixes in a folder, sorted; at most 100.
std::vector<std::string> indexed_prefixes_in(const std::string& folder);
std::string indexed_prefix_advice(const std::string& path);  // what to do where is_indexed_prefix is false

// Maps both files. Opening costs the same for any size: it checks the header, the sizes of both files and the ends of each
// array; every access is checked again. Whoever trains on it calls check() first (open_token_file). What does not fit is a
// UserError naming file and rule. Const members may be called by many threads; the files must not change meanwhile.
class IndexedFile {
 public:
  explicit IndexedFile(std::string prefix);  // without .bin or .idx

  const std::string& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return entries_ - 1; }
  int64_t tokens() const { return static_cast<int64_t>(bin_.bytes().size()) / width_; }
  bool has_modes() const { return modes_ != nullptr; }

  int64_t length(int64_t sequence) const;          // in tokens
  int64_t begin(int64_t sequence) const;           // first token of a sequence, counted from the start of .bin
  int64_t document_begin(int64_t document) const;  // its first sequence; documents() gives sequences()
  int8_t mode(int64_t sequence) const;             // 0 without modes
  // Copies into.size() tokens from token `offset` of a sequence on. Tokens outside int32 and fractions are a UserError.
  void copy(int64_t sequence, int64_t offset, std::span<int32_t> into) const;
  // The same by place in .bin, across sequences.
  void copy_range(int64_t begin, std::span<int32_t> into) const;
  std::span<const std::byte> bytes(int64_t sequence) const;  // as stored
  std::span<const std::byte> all_bytes() const { return bin_.bytes(); }
  // Lengths [first, last) of sequences as they lie in the file (int32, not aligned); fetched from disk ahead.
  std::span<const std::byte> lengths(int64_t first, int64_t last) const;
  // Reads every entry, about a second for 10^9 bytes of index: lengths at least 0, offsets their running sum, documents in
  // order. A UserError names the first that lies, and its document.
  void check() const;

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& rule) const;
  void in_range(int64_t sequence) const;
  std::string prefix_;
  MappedFile idx_, bin_;
  TokenType type_ = TokenType::i32;
  int64_t width_ = 4, sequences_ = 0, entries_ = 1;
  const std::byte *lengths_ = nullptr, *offsets_ = nullptr, *documents_ = nullptr, *modes_ = nullptr;
};

}  // namespace ravine
