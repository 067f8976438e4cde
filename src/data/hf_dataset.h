// Finds the rows of a dataset as load_dataset of Hugging Face's `datasets` does, in local folders. Rules: datasets 2.14
// to 5.2 (data_files.py, arrow_reader.py, the `configs` of a card).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace ravine {

// The arguments of load_dataset of Hugging Face's `datasets`, which name the rows to read.
struct HfDatasetRequest {
  std::string path;      // a folder, or the name of a reader (json, csv, text, parquet, arrow) if data_files is set
  std::string name;      // a configuration of the dataset card (README.md), else a folder below the path; "": none
  std::string data_dir;  // a folder below the path that holds the files; "": the path itself
  // Splits and their patterns, in order; empty: splits are found by name.
  std::vector<std::pair<std::string, std::vector<std::string>>> data_files;
  std::string split = "train";  // train, train[:10%], train[5:]+test, all
  std::string field;            // the member of a .json file that holds the records; "": the file is the records
};

// Reads the arguments of load_dataset from a JSON object, given as text or as a file name. Python's True, False and
// None are accepted, and a key without its closing quote; `notices` then gets a line. Arguments without a meaning in
// Ravine (streaming, cache_dir, ..) are ignored. An unknown argument is a UserError at `where`.
HfDatasetRequest read_hf_request(const std::string& text_or_file, const std::string& where, std::vector<std::string>* notices);

// A range of rows of a file.
struct RowsOfFile {
  std::string path;
  int64_t first = 0, end = -1;  // rows [first, end), from 0; end -1: all rows from `first` on
  bool lines = false;           // rows are lines, for any suffix
  bool operator==(const RowsOfFile&) const = default;
};

// Returns the rows that a request selects, file by file, in the order of Hugging Face's `datasets`. A missing split,
// configuration or folder is a UserError that names the existing ones. For a slice in percent or from the end, the rows
// of its files are counted.
std::vector<RowsOfFile> rows_of_dataset(const HfDatasetRequest& request, const std::string& where);

// Parses the argument data_files of load_dataset. Returns pairs of a split and its file patterns. value: a text, a
// list, {split: ..}, or the [{split, path}] of a dataset card.
std::vector<std::pair<std::string, std::vector<std::string>>> hf_data_files(const Json& value, const std::string& where);

// True if `path` (with /, without a leading one) matches the pattern. ? and * match within a folder, ** across folders;
// sets are [ab] and [0-9].
bool fits_pattern(std::string_view pattern, std::string_view path);

// A slice of a split, as in load_dataset: "train[10%:-5]". An empty from or to: the beginning or the end of the split.
// A negative number counts from the end.
struct SplitSlice {
  std::string split;
  std::optional<int64_t> from, to;
  // percent: from and to are percent of the split's rows. whole_percents: they are rounded to whole percents (rounding
  // pct1_dropremainder).
  bool percent = false, whole_percents = false;
  // Returns the rows [first, end) of this slice of a split with `count` rows.
  std::pair<int64_t, int64_t> rows(int64_t count) const;
  bool counts() const;  // true if rows() depends on the number of rows of the split
};
std::vector<SplitSlice> parse_split(const std::string& words, const std::string& where);

}  // namespace ravine
