#include "data/records/open_records.h"

#include <limits>

#include "base/error.h"
#include "data/records/readers.h"
#include "data/source.h"
#include "data/text_encoding.h"

namespace ravine {

namespace {

// Rows [first, end) of another reader.
class SlicedRecords final : public RecordReader {
 public:
  SlicedRecords(std::unique_ptr<RecordReader> all, int64_t first, int64_t end) : all_(std::move(all)), left_(end - first) {
    Record passed;
    for (int64_t i = 0; i < first && all_->next(passed); ++i) continue;
  }
  bool next(Record& record) override { return left_ > 0 && all_->next(record) && left_-- > 0; }
  double done() const override { return left_ > 0 ? all_->done() : 1; }

 private:
  std::unique_ptr<RecordReader> all_;
  int64_t left_;
};

std::unique_ptr<RecordReader> open_kind(const std::string& path, const RecordOptions& options) {
  if (options.lines) return open_text_records(path, options);
  SourceKind kind = source_kind(path);
  // A single object, for any suffix.
  if (!options.member.empty() && kind == SourceKind::jsonl) kind = SourceKind::json;
  if (!options.member.empty() && kind != SourceKind::json)
    throw UserError("a field of a file that is no JSON", path, "field names a member of a .json file", "leave field out");
  if (kind == SourceKind::text || kind == SourceKind::jsonl || kind == SourceKind::json || kind == SourceKind::csv)
    refuse_other_kind(path);
  switch (kind) {
    case SourceKind::text:
      return open_text_records(path, options);
    case SourceKind::jsonl:
      return open_jsonl_records(path, options);
    case SourceKind::json:
      return open_json_records(path, options);
    case SourceKind::csv:
      return open_csv_records(path, options);
    case SourceKind::parquet:
      return open_parquet_records(path, options);
    case SourceKind::indexed:
    case SourceKind::instructions:
    case SourceKind::mindrecord:
    case SourceKind::fixed:
      break;
  }
  throw UserError("not a file of texts", path, "it holds token ids already",
                  "give .txt, .jsonl, .json, .csv or .parquet files here");
}

}  // namespace

std::unique_ptr<RecordReader> open_records(const std::string& path, const RecordOptions& options) {
  std::unique_ptr<RecordReader> all = open_kind(path, options);
  if (options.first == 0 && options.end < 0) return all;
  const int64_t end = options.end < 0 ? std::numeric_limits<int64_t>::max() : options.end;
  return std::make_unique<SlicedRecords>(std::move(all), options.first, end);
}

}  // namespace ravine
