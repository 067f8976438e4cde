#include "data/instruct/chat_records.h"

#include "data/records/open_records.h"
#include "data/source.h"

namespace ravine {

ChatRecords::ChatRecords(const std::string& path)
    : reader_(open_records(path, {})), by_order_(source_kind(path) == SourceKind::json) {}

bool ChatRecords::next(Record& record) {
  if (!reader_->next(record)) return false;
  ++number_;
  if (by_order_) record.number = number_;
  return true;
}

}  // namespace ravine
