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

// Documents that are ready to be appended to token files. Any thread can build them; IndexedWriter::add_documents()
// writes them in one call.
struct StoredDocuments {
  std::vector<std::byte> tokens;   // of all sequences, in the type of the file
  std::vector<int32_t> lengths;    // lengths of all sequences, in tokens
  std::vector<int32_t> sequences;  // number of sequences of each document
  void clear() { tokens.clear(), lengths.clear(), sequences.clear(); }
  // Adds a document. ids: the tokens of its sequences, concatenated. lengths: tokens of each sequence; their sum is
  // ids.size(). An id that the type cannot hold is a UserError that names `where`.
  void add(TokenType type, std::span<const int32_t> ids, std::span<const int32_t> lengths, const std::string& where);
};

// The writer of one pair of token files, .bin and .idx. The writer adds tokens and lengths to files of a work folder as
// they are added. So the memory does not grow with the data, and after a kill a new writer can continue after the last
// flush(). publish() gives the files their final names. Not thread-safe.
class IndexedWriter {
 public:
  // Sizes of the writer's files in the work folder, in bytes, after a flush(). A new writer can continue from them.
  struct Position {
    int64_t bin = 0, lengths = 0, documents = 0, modes = 0;
    int64_t sequences() const { return lengths / 4; }
  };

  // Opens the files FOLDER/NAME.*; the folder must exist. With `from`, the files are cut to these sizes, and shorter
  // files are a UserError. Without it, they are created.
  IndexedWriter(const std::string& folder, const std::string& name, TokenType type, bool modes, const Position* from = nullptr);

  void add_documents(const StoredDocuments& documents);  // the tokens must have the type of the writer
  // Appends sequences to the document that is not ended yet. tokens: bytes in the type of the writer. lengths: tokens
  // of each sequence; the number of bytes must fit them. modes: one entry per sequence if the writer has modes, else
  // empty.
  void add_stored(std::span<const std::byte> tokens, std::span<const int32_t> lengths, std::span<const int8_t> modes = {});
  void end_document();
  // Appends all documents of a token file. The file must have the type of the writer, and modes if and only if the
  // writer has modes.
  void add_file(const IndexedFile& file);

  // Writes the buffered data to the files in the work folder, and returns their sizes. to_disk: also waits until the
  // data is on the disk.
  Position flush(bool to_disk);
  int64_t documents() const { return position_.documents / 8; }
  int64_t sequences() const { return position_.sequences(); }
  int64_t tokens() const { return position_.bin / width_; }

  void finish();  // writes the .idx file in the work folder; called once, after the last document and before publish()
  // Renames FOLDER/NAME.bin and .idx to PREFIX.bin and .idx, the .idx last. If a kill stops it after the first file,
  // another call renames the second file.
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

// Concatenates token files into one pair, OUTPUT_PREFIX.bin and .idx, as Megatron's builder does with add_index. All
// inputs have one type, and all or none have modes. An existing output is a UserError unless `overwrite`. After a kill,
// the old pair or the new pair exists, or the complete new pair is not renamed yet (files/file_set.h), which readers
// report.
void merge_indexed(const std::vector<std::string>& prefixes, const std::string& output_prefix, bool overwrite);

// Throws a UserError if PREFIX.bin or PREFIX.idx exists. With `overwrite` it throws only if one of them is a folder.
void refuse_existing(const std::string& prefix, bool overwrite);

}  // namespace ravine
