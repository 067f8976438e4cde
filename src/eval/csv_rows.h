// Reads a CSV file (RFC 4180) without a header, as in MMLU.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// A row of a CSV file.
struct CsvRow {
  std::vector<std::string> fields;
  int64_t line = 0;  // line of the file where the row begins, from 1
};

// Return the rows of a CSV file, or of its text; blank lines are dropped. The file may be compressed. More than 256
// MiB, bytes that are not UTF-8, and an unclosed quote are UserErrors that name the file (`path`) and the line.
std::vector<CsvRow> read_csv_rows(const std::string& path);
std::vector<CsvRow> parse_csv_rows(std::string_view text, const std::string& path);

}  // namespace ravine
