// A row of a check of two sides: the two programs, runs or configs that should do the same training.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ravine {

// The verdict of a row. allowed: the values differ and the user has said that they may. unknown: a side does not tell.
enum class RowVerdict : uint8_t { equal, allowed, different, unknown };
std::string_view name(RowVerdict verdict);

// The value of a side, as text for the user, and its place: FILE:LINE, a flag, or "default of PROGRAM".
struct RowValue {
  std::string text, where;
};

// A row of a check: a name for --allow, its group, both values, and what a difference does to the numbers.
struct CheckRow {
  std::string name, group;
  RowVerdict verdict = RowVerdict::unknown;
  RowValue a, b;
  std::string effect;  // a sentence; shown if the sides differ
  std::string advice;  // a rule that both sides break; "": none
};

// Gives the verdict `allowed` to the rows that differ and whose name or group is in `allow`. An unknown name is a
// UserError.
void allow_rows(std::vector<CheckRow>& rows, const std::vector<std::string>& allow);

// True if no row is different.
bool agrees(const std::vector<CheckRow>& rows);

Json row_json(const CheckRow& row);

}  // namespace ravine
