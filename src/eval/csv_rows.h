// All rows of a CSV file (RFC 4180) without a header, as MMLU has them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

struct CsvRow {
  std::vector<std::string> fields;
  int64_t line = 0;  // of the file, from 1, where it begins
};

// Of a file, compressed or not; blank lines are passed over. More than 256 MiB, bytes that are not UTF-8, and a quote that does
// not end are UserErrors that name file and line.
std::vector<CsvRow> read_csv_rows(const std::string& path);
std::vector<CsvRow> parse_csv_rows(std::string_view text, const std::string& path);

}  // namespace ravine
