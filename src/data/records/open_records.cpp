#include "data/records/open_records.h"

#include "base/error.h"
#include "data/records/readers.h"
#include "data/source.h"
#include "data/text_encoding.h"

namespace ravine {

std::unique_ptr<RecordReader> open_records(const std::string& path, const RecordOptions& options) {
  const SourceKind kind = source_kind(path);
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

}  // namespace ravine
