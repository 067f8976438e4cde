// The interface of readers of record files; records/open_records.h opens a reader.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/record.h"

namespace ravine {

struct RecordOptions {
  std::vector<std::string> fields;          // columns of a table to read; empty: all
  std::string asked_by = "data.text_key";   // option or flag that names the fields, for messages
  bool whole_text = false;                  // a .txt file is one record; else each line is one
  int64_t max_record = int64_t{256} << 20;  // bytes; a longer record is a UserError
  std::string member;                       // of a .json file with a single object: the member that holds the records
  int64_t first = 0, end = -1;              // range of records to read, from 0; end -1: to the last
  bool lines = false;                       // a text file with any suffix: each line is a record
};

// Reads the records of one file, in order. Not thread-safe.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  virtual bool next(Record& record) = 0;  // false at the end
  virtual double done() const = 0;        // share of the file that was read, 0 to 1
};

// Returns the advice to name a field: "set data.text_key=body" or "add --text-key body".
std::string name_field(const std::string& asked_by, const std::string& field);

// Appends `text` as a JSON string with quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ravine
