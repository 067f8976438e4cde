// Reads MindRecord files, as mindspore.mindrecord.FileWriter writes them, with columns of whole numbers. The format:
//
//   0           u64 n (little endian), then n bytes of JSON: header_size, page_size, schema, page, shard_addresses,
//               compression_size
//   header_size + k page_size   page k. A page of type BLOB_DATA holds rows start_row_id to end_row_id.
//               A row is a u64 (little endian) number of bytes, then the bytes.
//               One column: the bytes are its values.
//               Several columns, in the order of blob_fields: each is a u64 (big endian) number of bytes and the values
//
// If compression_size is 0, values are int32 or int64 (little endian). Otherwise they are packed: a u32 (big endian)
// number of values, two bits for each value, and the values as signed numbers. The two bits give the size of the value:
// 1, 2, 4 or 8 bytes; the first value has the highest bits. The index file (.db) is not needed.
// Source: mindspore/ccsrc/minddata/mindrecord, meta/shard_column.cc, meta/shard_header.cc, io/shard_writer.cc.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/mapped_file.h"

namespace ravine {

// True if a file begins like a MindRecord file.
bool is_mindrecord_file(const std::string& path);
// True if the path is a MindRecord file, or a folder with one.
bool is_mindrecord_path(const std::string& path);
// Returns the MindRecord files in a folder and its subfolders, sorted by path.
std::vector<std::string> mindrecord_files_in(const std::string& folder);

// The rows of MindRecord files. Constructed with the path of one file, it has the rows of the whole dataset: of all
// files that the header names (shard_addresses), in their order. With the path of a folder, it has all datasets in the
// folder and its subfolders, sorted by path. With a list of paths, it has exactly these files.
// Opening reads the length of every row. A damaged file, and columns of other types, are UserErrors that name file and
// row. Const members are thread-safe.
class MindRecordFiles {
 public:
  explicit MindRecordFiles(const std::string& path);
  explicit MindRecordFiles(const std::vector<std::string>& paths);
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  // The types of columns(), by MindSpore's names.
  const std::vector<std::string>& types() const { return types_; }
  // The columns that cannot be read, because they are not arrays: name and type.
  const std::map<std::string, std::string>& other_columns() const { return other_columns_; }
  std::vector<std::string> paths() const;
  bool has(const std::string& column) const;
  std::vector<int64_t> values(int64_t row, const std::string& column) const;
  std::string row_name(int64_t row) const;  // "FILE row 3"

 private:
  struct Row {
    uint32_t file = 0;
    uint64_t at = 0;  // offset of its bytes
    uint64_t size = 0;
    int64_t number = 0;  // number in its file
  };
  static std::vector<std::string> parts_of(const std::string& path);
  void open(const std::string& path);
  std::vector<MappedFile> files_;
  std::vector<std::string> columns_, types_;  // blob_fields
  std::map<std::string, std::string> other_columns_;
  std::vector<int> sizes_;  // bytes of a value: 4 or 8; 0: not whole numbers
  bool packed_ = false;
  std::vector<Row> rows_;
};

}  // namespace ravine
