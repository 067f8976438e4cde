#include "data/record.h"

#include "base/error.h"
#include "data/record_reader.h"
#include "data/records/readers.h"
#include "data/source.h"
#include "data/text_encoding.h"

namespace ravine {

std::string Record::where() const { return fmt::format("{}:{}", *file, number); }

Json Record::json() const {
  if (plain) return Json{{"text", body}};
  Json j = parse_json(body, where());
  if (!j.is_object()) throw UserError("not a JSON object", where(), "a record must be a JSON object", "correct the file");
  return j;
}

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
    case SourceKind::fixed:
      break;
  }
  throw UserError("not a file of texts", path, "it holds token ids already",
                  "give .txt, .jsonl, .json, .csv or .parquet files here");
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, from, i - from);
    from = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += fmt::format("\\u{:04x}", c);
    }
  }
  out.append(text, from);
  out += '"';
}

}  // namespace ravine
