// The checks of `ravine check data`: ids in range, special ids, label shift, chat template, duplicates, and where two
// streams part.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checks/token_stream.h"

namespace ravine {

// The result of one check. kept: empty if the check does not apply to this source.
struct DataFinding {
  std::string name;
  std::optional<bool> kept;
  std::string text;  // what was found, with its place
};

// Checks a source. most_rows: number of rows that are read; 0: all.
std::vector<DataFinding> check_tokens(const TokenSource& source, int64_t most_rows);

// The first token in which two streams part. Rows are concatenated, so streams with other lengths of rows compare.
struct StreamSplit {
  int64_t token = 0;  // number of equal tokens before it
  int64_t row_a = 0, row_b = 0;
  std::string place_a, place_b;  // "": the stream has ended
  std::string text_a, text_b;    // the tokens around it
};
// Returns nothing if the streams are equal, or one is the beginning of the other and `ended` tells which.
struct StreamComparison {
  int64_t equal = 0;                 // number of equal tokens
  std::optional<StreamSplit> split;  // empty: no token differs
  bool a_ended = false, b_ended = false;
};
StreamComparison compare_streams(const TokenSource& a, const TokenSource& b, int64_t most_rows);

// Returns ids as text by a tokenizer, or as numbers without one.
std::string shown_ids(std::span<const int32_t> ids, const Tokenizer* tokenizer);

// Returns `count` row numbers drawn by `seed`, ascending, each once.
std::vector<int64_t> drawn_rows(int64_t rows, int64_t count, uint64_t seed);

}  // namespace ravine
