// MindRecord files, as mindspore.mindrecord.FileWriter writes them, with columns of whole numbers.
//
//   0           u64 n (little endian), then n bytes of JSON: header_size, page_size, schema, page, shard_addresses,
//               compression_size
//   header_size + k page_size   page k. One of type BLOB_DATA holds rows start_row_id to end_row_id, each a u64 (little endian)
//               of bytes and so many bytes: with one column its values, with several for each, in the order of blob_fields, a
//               u64 (big endian) of bytes and the values
//
// Values of int32 and int64 are stored as such (little endian) where compression_size is 0; else packed: a u32 (big endian) of
// values, two bits for each (first value in the highest: 1, 2, 4 or 8 bytes), and the values as signed numbers of these sizes.
// The index beside the file (.db) is not needed. Source: mindspore/ccsrc/minddata/mindrecord, meta/shard_column.cc,
// meta/shard_header.cc, io/shard_writer.cc.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/mapped_file.h"

namespace ravine {

// A file that begins as one, or a folder with such a file.
bool is_mindrecord_file(const std::string& path);
bool is_mindrecord_path(const std::string& path);
std::vector<std::string> mindrecord_files_in(const std::string& folder);  // and in folders below it, sorted by path

// The rows of the data set that a file belongs to, all files that its header names (shard_addresses) in their order; or of all
// data sets of a folder and of folders below it, sorted by path. Of several paths each is that file alone.
// Opening reads the length of every row. What is damaged, and columns of other types, are UserErrors that name the file and the
// row. Const members may be called by several threads.
class MindRecordFiles {
 public:
  explicit MindRecordFiles(const std::string& path);
  explicit MindRecordFiles(const std::vector<std::string>& paths);
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  const std::vector<std::string>& types() const { return types_; }  // of columns(), in MindSpore's words
  // Those that are no arrays, with their types. They are not read.
  const std::map<std::string, std::string>& other_columns() const { return other_columns_; }
  std::vector<std::string> paths() const;
  bool has(const std::string& column) const;
  std::vector<int64_t> values(int64_t row, const std::string& column) const;
  std::string place(int64_t row) const;  // "FILE row 3"

 private:
  struct Row {
    uint32_t file = 0;
    uint64_t at = 0;  // of its bytes
    uint64_t size = 0;
    int64_t number = 0;  // in its file
  };
  static std::vector<std::string> parts_of(const std::string& path);
  void open(const std::string& path);
  std::vector<MappedFile> files_;
  std::vector<std::string> columns_, types_;  // blob_fields
  std::map<std::string, std::string> other_columns_;
  std::vector<int> sizes_;  // bytes of a value: 4 or 8; 0: no whole numbers
  bool packed_ = false;
  std::vector<Row> rows_;
};

}  // namespace ravine
