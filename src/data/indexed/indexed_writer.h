// Writes PREFIX.bin and PREFIX.idx, bit for bit as Megatron's IndexedDatasetBuilder.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/indexed/indexed_file.h"
#include "files/fd.h"
#include "files/mapped_file.h"

namespace ravine {

// Complete documents in the format of the files. Any thread can build them; IndexedWriter writes them in one call.
struct StoredDocuments {
  std::vector<std::byte> tokens;
  std::vector<int32_t> lengths;    // of sequences, in tokens
  std::vector<int32_t> sequences;  // number of sequences of each document
  void clear() { tokens.clear(), lengths.clear(), sequences.clear(); }
  // Adds a document with sequences of these lengths, whose sum is ids.size(). An id that the type cannot hold is a
  // UserError that names `where`.
  void add(TokenType type, std::span<const int32_t> ids, std::span<const int32_t> lengths, const std::string& where);
};

// Writes tokens and lengths to files of a work folder as they arrive. So the memory does not grow with the data, and
// flushed data can be resumed after a kill. publish() renames the files, .idx last. Not thread-safe.
class IndexedWriter {
 public:
  // Sizes of the files in the work folder, in bytes. A writer can resume from them.
  struct Position {
    int64_t bin = 0, lengths = 0, documents = 0, modes = 0;
    int64_t sequences() const { return lengths / 4; }
  };

  // Opens the files FOLDER/NAME.*; the folder must exist. With `from`, the files are cut to these sizes, and shorter
  // files are a UserError. Without it, they are created.
  IndexedWriter(const std::string& folder, const std::string& name, TokenType type, bool modes, const Position* from = nullptr);

  void add_documents(const StoredDocuments& documents);  // of this type
  // Appends stored tokens; the number of bytes must fit the type and the lengths. modes: one entry per sequence if the
  // file has modes, else empty.
  void add_stored(std::span<const std::byte> tokens, std::span<const int32_t> lengths, std::span<const int8_t> modes = {});
  void end_document();
  // Appends a whole file of the same type, which has modes if and only if this writer has.
  void add_file(const IndexedFile& file);

  Position flush(bool to_disk);  // writes the buffers to the files, or onto the disk; returns the position after it
  int64_t documents() const { return position_.documents / 8; }
  int64_t sequences() const { return position_.sequences(); }
  int64_t tokens() const { return position_.bin / width_; }

  void finish();  // writes the index in the work folder; called once, before publish()
  // Renames FOLDER/NAME.bin and .idx to PREFIX.bin and .idx. After a kill in between, another call does the rest.
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

// Joins files of one type (all or none with modes) into PREFIX, as Megatron's builder does with add_index. Existing
// files of this name are a UserError unless `overwrite`. After a kill, there is the old pair or the new one, or the new
// pair waits for its names (files/file_set.h), which readers report.
void merge_indexed(const std::vector<std::string>& prefixes, const std::string& output_prefix, bool overwrite);

// Throws a UserError if PREFIX.bin or PREFIX.idx exists; with `overwrite` only if it is not a file.
void refuse_existing(const std::string& prefix, bool overwrite);

}  // namespace ravine
