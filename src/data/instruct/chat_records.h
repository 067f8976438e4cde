// The records of a .json or .jsonl file (also .gz, .zst, .xz), one after another, in constant memory.
#pragma once
#include <memory>
#include <string>

#include "data/record.h"
#include "files/compressed.h"

namespace ravine {

// .jsonl: an object per line, blank lines passed over. .json: a list of objects, or objects one after another. Records are numbered as
// Record::number says: a .jsonl's by line, a .json's by their order. Anything that is not so is a UserError naming file and record.
class ChatRecords {
 public:
  explicit ChatRecords(const std::string& path);
  bool next(Record& record);  // false at the end

 private:
  bool next_line(Record& record);
  bool next_object(Record& record);
  int peek();  // the next byte that is no white space, not taken; -1 at the end
  void take() { ++at_; }
  bool fill();

  std::shared_ptr<const std::string> file_;
  bool lines_;
  std::unique_ptr<LineReader> reader_;
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t number_ = 0;
  bool begun_ = false, list_ = false, done_ = false;
};

}  // namespace ravine
