// Writes PREFIX.bin and PREFIX.idx bit for bit as Megatron's IndexedDatasetBuilder does.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/indexed/indexed_file.h"
#include "files/fd.h"
#include "files/mapped_file.h"

namespace ravine {

// Whole documents in the form of the files, made by any thread and written at once.
struct StoredDocuments {
  std::vector<std::byte> tokens;
  std::vector<int32_t> lengths;    // of sequences, in tokens
  std::vector<int32_t> sequences;  // of each document
  void clear() { tokens.clear(), lengths.clear(), sequences.clear(); }
  // A document of sequences with these lengths (their sum is ids.size()). An id that the type cannot hold is a UserError naming
  // `where`.
  void add(TokenType type, std::span<const int32_t> ids, std::span<const int32_t> lengths, const std::string& where);
};

// Tokens and lengths go to files of a work folder as they come, so memory does not grow with the data, and what was flushed
// can be gone on with after a kill. The files appear under their own names at publish(), .idx last. One thread at a time.
class IndexedWriter {
 public:
  // Sizes of the files in the work folder, in bytes: all that is needed to go on.
  struct Position {
    int64_t bin = 0, lengths = 0, documents = 0, modes = 0;
    int64_t sequences() const { return lengths / 4; }
  };

  // Files FOLDER/NAME.*; the folder must exist. With `from` they are cut back to those sizes (they must not be shorter: a
  // UserError), else begun anew.
  IndexedWriter(const std::string& folder, const std::string& name, TokenType type, bool modes, const Position* from = nullptr);

  void add_documents(const StoredDocuments& documents);  // of this type
  // As stored: the number of bytes fits the type and the lengths. `modes` has one entry per sequence, if there are modes.
  void add_stored(std::span<const std::byte> tokens, std::span<const int32_t> lengths, std::span<const int8_t> modes = {});
  void end_document();
  void add_file(const IndexedFile& file);  // all of it; of the same type, with modes if and only if this has them

  Position flush(bool to_disk);  // hands everything to the system, or onto the disk; the position behind it
  int64_t documents() const { return position_.documents / 8; }
  int64_t sequences() const { return position_.sequences(); }
  int64_t tokens() const { return position_.bin / width_; }

  void finish();  // writes the index in the work folder; once, before publish
  // Renames FOLDER/NAME.bin and .idx to PREFIX.bin and .idx. Again after a kill in between it does what is left.
  static void publish(const std::string& folder, const std::string& name, const std::string& prefix, bool overwrite);

 private:
  struct Part {
    Fd fd;
    std::string path;
    std::vector<std::byte> buffer;
    void open(const std::string& path, const int64_t* size);
    void append(std::span<const std::byte> bytes);
    void flush();
    MappedFile mapped(int64_t size) const;
  };
  std::string base_;
  TokenType type_;
  int64_t width_;
  bool has_modes_;
  Part bin_, lengths_, documents_, modes_;
  Position position_;
};

// Joins files of one type (and all or none with modes) into PREFIX, as Megatron's builder does with add_index. Existing files
// of the name are a UserError unless `overwrite`; after a kill the old pair is there, or the new one, or it waits for its names
// (files/file_set.h) and readers say so.
void merge_indexed(const std::vector<std::string>& prefixes, const std::string& output_prefix, bool overwrite);

// A UserError if PREFIX.bin or PREFIX.idx is there; with `overwrite` only if it is no file.
void refuse_existing(const std::string& prefix, bool overwrite);

}  // namespace ravine
