// Reads Megatron's token files. PREFIX.bin holds the tokens of all sequences; PREFIX.idx holds the offsets of sequences
// and documents.
//
// Layout of .idx (little-endian):
//   "MMIDIDX\0\0", u64 version 1, u8 type, u64 number of sequences N, u64 number of document entries D;
//   N int32: lengths in tokens;
//   N int64: byte offsets into .bin;
//   D int64: 0, then the number of sequences up to the end of each document;
//   in multimodal data N int8: modes.
// Source: megatron/core/datasets/indexed_dataset.py.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/mapped_file.h"

namespace ravine {

struct FileSetKind;

// The number types of tokens in a .bin file, with their codes in the .idx file of Megatron-core. Its predecessor before
// 2021 had the codes 6 and 7 exchanged.
enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, f64 = 6, f32 = 7, u16 = 8 };

int64_t size_of(TokenType t);
const char* name(TokenType t);  // "uint16", the name in NumPy
// Returns the type in which Megatron stores the tokens of a vocabulary: uint16 below 65500 tokens, else int32.
TokenType smallest_type(int64_t vocabulary);

inline constexpr int64_t kIndexHeader = 34;         // bytes of an .idx file before the lengths of the sequences
inline constexpr char kIndexMagic[] = "MMIDIDX\0";  // the first nine bytes of an .idx file, terminator included

// Returns the path of the folder in which new files PREFIX.bin and PREFIX.idx are kept until both are complete and can
// be renamed (files/file_set.h).
std::string indexed_journal(const std::string& prefix);
FileSetKind indexed_set(const std::string& prefix);

// True if `path` names a pair of token files: it is PREFIX, PREFIX.bin or PREFIX.idx, and both files exist. prefix: if
// not null, receives PREFIX. A replacement of the pair that has not finished, running or killed, is a UserError.
bool is_indexed_prefix(const std::string& path, std::string* prefix = nullptr);
// Returns the first existing prefix of token files that is `path` and an ending of `ravine preprocess`
// (PATH_text_document); "" if there is none.
std::string near_indexed_prefix(const std::string& path);
// Returns the prefixes of the token files (PREFIX.bin with PREFIX.idx) in a folder, sorted; at most 100.
std::vector<std::string> indexed_prefixes_in(const std::string& folder);
// Returns the advice for an error message if a path should be a prefix of token files, but is_indexed_prefix(path) is
// false.
std::string indexed_prefix_advice(const std::string& path);

// A pair of token files, PREFIX.bin and PREFIX.idx, mapped into memory. The cost of opening does not depend on the
// size: the header, the sizes of both files and the end of each array are checked. Every access is checked again.
// Before training, check() must be called (open_token_file does it). A damaged file is a UserError that names file and
// rule. Const members are thread-safe; the files must not change.
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
  int64_t document_begin(int64_t document) const;  // first sequence of a document; for documents(): sequences()
  int8_t mode(int64_t sequence) const;             // the sequence's mode in multimodal data; 0 in other data
  // Copies into.size() tokens of a sequence, from token `offset` on. Tokens outside int32 and fractions are a
  // UserError.
  void copy(int64_t sequence, int64_t offset, std::span<int32_t> into) const;
  // Copies into.size() tokens of .bin, from token `begin` of the file on; they may belong to several sequences. Tokens
  // outside int32 and fractions are a UserError.
  void copy_range(int64_t begin, std::span<int32_t> into) const;
  std::span<const std::byte> bytes(int64_t sequence) const;  // the tokens of a sequence as stored, of type()
  std::span<const std::byte> all_bytes() const { return bin_.bytes(); }
  // Returns the bytes of the lengths, in tokens, of sequences [first, last): int32 as in the file, not aligned. The
  // system starts to read them from disk.
  std::span<const std::byte> lengths(int64_t first, int64_t last) const;
  // Checks every entry of the index: lengths are at least 0, offsets are the running sum of the lengths, documents are
  // in order. Takes about a second per 10^9 bytes of index. The first wrong entry is a UserError that names it and its
  // document.
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
