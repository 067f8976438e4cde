// Files of records: .jsonl, .json, .csv, .parquet and .txt, also with .gz, .zst or .xz behind.
#pragma once
#include <memory>
#include <string>

#include "data/record_reader.h"

namespace ravine {

// By the suffix (data/source.h):
//   .txt      one record per line, without its end; empty lines are passed over. A byte order mark at the start is left out
//   .jsonl    one object per line; blank lines are passed over
//   .json     an array of objects, or objects one behind the other
//   .csv      RFC 4180 with a header: an object of texts per row; rows of another number of fields are a UserError
//   .parquet  through Apache Arrow: an object per row. A build without it refuses such files and says what to install
// The body of a record is cut out here, its JSON is checked by whoever reads it. Bytes that are not UTF-8 are left as they are.
std::unique_ptr<RecordReader> open_records(const std::string& path, const RecordOptions& options);

}  // namespace ravine
