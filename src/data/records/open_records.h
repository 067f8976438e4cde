// Opens files of records: .jsonl, .json, .csv, .parquet and .txt, also with .gz, .zst or .xz appended.
#pragma once
#include <memory>
#include <string>

#include "data/record_reader.h"

namespace ravine {

// Opens a file by its suffix (data/source.h):
//  .txt      one record per line, without its line end; empty lines are skipped, and so is a byte order mark
//  .jsonl    one object per line; blank lines are skipped
//  .json     an array of objects, or concatenated objects
//  .csv      RFC 4180 with a header: an object of texts per row; rows with another number of fields are a UserError
//  .parquet  by Apache Arrow: an object per row. A build without Arrow throws a UserError that says what to install
// The reader only finds the body of a record; the caller checks its JSON. Bytes that are not UTF-8 remain unchanged.
std::unique_ptr<RecordReader> open_records(const std::string& path, const RecordOptions& options);

}  // namespace ravine
