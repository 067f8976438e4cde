// What reads the records of a file; of which kinds there are readers says records/open_records.h.
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
  std::string member;                       // of a .json file that is one object: the member that holds the records
  int64_t first = 0, end = -1;              // records from 0 that are read; end -1: to the last
  bool lines = false;                       // a text, whatever its suffix: each line is a record
};

// The records of one file, in order. One thread at a time.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  virtual bool next(Record& record) = 0;  // false at the end
  virtual double done() const = 0;        // share of the file that was read, 0 to 1
};

// "set data.text_key=body" or "add --text-key body".
std::string name_field(const std::string& asked_by, const std::string& field);

// `text` as a JSON string, with quotes, appended.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ravine
