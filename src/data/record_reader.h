// Files of records: .jsonl, .json, .csv, .parquet and .txt, also with .gz, .zst or .xz behind.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/record.h"

namespace ravine {

struct RecordOptions {
  std::vector<std::string> fields;          // of a table, those to read; empty: all
  std::string asked_by = "data.text_key";   // the option or flag that names the fields, for messages
  bool whole_text = false;                  // a .txt file is one record; else each line is one
  int64_t max_record = int64_t{256} << 20;  // bytes; a longer one is a UserError
};

// The records of one file, in order. One thread at a time.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  virtual bool next(Record& record) = 0;  // false at the end
  virtual double done() const = 0;        // share of the file that was read, 0 to 1
};

// By the suffix (data/source.h):
//   .txt      one record per line, without its end; empty lines are passed over. A byte order mark at the start is left out
//   .jsonl    one object per line; blank lines are passed over
//   .json     an array of objects, or objects one behind the other
//   .csv      RFC 4180 with a header: an object of texts per row; rows of another number of fields are a UserError
//   .parquet  through Apache Arrow: an object per row. A build without it refuses such files and says what to install
// The body of a record is cut out here, its JSON is checked by whoever reads it. Bytes that are not UTF-8 are left as they are.
std::unique_ptr<RecordReader> open_records(const std::string& path, const RecordOptions& options);

// "set data.text_key=body" or "add --text-key body".
std::string name_field(const std::string& asked_by, const std::string& field);

// `text` as a JSON string, with quotes, appended.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ravine
