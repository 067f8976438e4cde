// Data sets as load_dataset of Hugging Face's `datasets` takes them, from local folders: its arguments, the files of a
// split, slices of its rows. Rules: datasets 2.14 to 5.2 (data_files.py, arrow_reader.py, the card's `configs`).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace ravine {

// Arguments of load_dataset.
struct HfDatasetRequest {
  std::string path;      // a folder, or the name of a reader (json, csv, text, parquet, arrow) beside data_files
  std::string name;      // a configuration: of the card, else a folder below the path
  std::string data_dir;  // a folder below the path
  std::vector<std::pair<std::string, std::vector<std::string>>> data_files;  // split and its patterns, in order; empty: by name
  std::string split = "train";                                               // train, train[:10%], train[5:]+test, all
  std::string field;  // of a .json file: the member that holds the records
};

// Reads a JSON object, given as text or as the name of a file. The words True, False and None of Python are taken, as is a key
// whose closing quote is missing, with a line in `notices`. An argument without a meaning here (streaming, cache_dir, ..) is
// passed over; an unknown one is a UserError at `where`.
HfDatasetRequest read_hf_request(const std::string& text_or_file, const std::string& where, std::vector<std::string>* notices);

// A run of rows of a file.
struct RowsOfFile {
  std::string path;
  int64_t first = 0, end = -1;  // rows from 0; end -1: all that follow
  bool lines = false;           // rows are lines, whatever the suffix
  bool operator==(const RowsOfFile&) const = default;
};

// The rows of the split, file by file, in the library's order. What is not there is a UserError that names what is: splits,
// configurations, folders. A slice in percent or from the end counts the rows of its files.
std::vector<RowsOfFile> rows_of_dataset(const HfDatasetRequest& request, const std::string& where);

// {split, patterns} of a data_files: a text, a list, {split: ..}, or the card's [{split, path}].
std::vector<std::pair<std::string, std::vector<std::string>>> hf_data_files(const Json& value, const std::string& where);

// True if `path` (with /, without a leading one) fits the pattern: ? and * stay within a folder, ** goes across, [ab], [0-9].
bool fits_pattern(std::string_view pattern, std::string_view path);

// A part of a split: "train[10%:-5]".
struct SplitSlice {
  std::string split;
  std::optional<int64_t> from, to;
  bool percent = false, whole_percents = false;  // whole_percents: rounding pct1_dropremainder
  // Rows [first, end) of so many.
  std::pair<int64_t, int64_t> rows(int64_t count) const;
  bool counts() const;  // True if the number of rows matters.
};
std::vector<SplitSlice> parse_split(const std::string& words, const std::string& where);

}  // namespace ravine
