// The interface of readers of record files; records/open_records.h opens a reader.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/record.h"

namespace ravine {

// The settings of a reader of record files.
struct RecordOptions {
  std::vector<std::string> fields;            // columns of a table to read; empty: all
  std::string option_name = "data.text_key";  // option or flag that names the fields, for messages
  bool whole_text = false;                    // true: a .txt file is one record; false: each line is a record
  int64_t max_record = int64_t{256} << 20;    // largest size of a record in bytes; a larger record is a UserError
  std::string member;                         // in a .json file with one object: the member with the records; "": none
  int64_t first = 0, end = -1;                // records [first, end) are read, counted from 0; end -1: to the last
  bool lines = false;                         // true: the file is text, whatever its suffix, and each line is a record
};

// Reads the records of one file, in order. Not thread-safe.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  virtual bool next(Record& record) = 0;  // false at the end
  virtual double done() const = 0;        // share of the file that was read, 0 to 1
};

// Returns the advice of a message to name another field of the records: "set data.text_key=body" if `option_name` is an
// option, "add --text-key body" if it is a flag.
std::string name_field(const std::string& option_name, const std::string& field);

// Appends `text` to `out` as a JSON string with quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ravine
