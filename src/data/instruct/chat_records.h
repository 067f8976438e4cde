// Reads the records of a set of conversations.
#pragma once
#include <memory>
#include <string>

#include "data/record_reader.h"

namespace ravine {

// A reader of the records of one file (formats: data/records/open_records.h). Records of a .json file are numbered by
// their order instead of their line, because a list is often on one line.
class ChatRecords {
 public:
  explicit ChatRecords(const std::string& path);
  bool next(Record& record);  // false at the end

 private:
  std::unique_ptr<RecordReader> reader_;
  bool by_order_;
  int64_t number_ = 0;
};

}  // namespace ravine
