// The closed choices of what a run makes of stored tables.
#pragma once
#include "config/choice.h"

namespace ravine {

// What the rows begin with by which model.vocabulary makes a table longer.
enum class NewRows : uint8_t { mean, normal };
constexpr auto names_of(NewRows) {
  using enum NewRows;
  return std::to_array<ValueName<NewRows>>({{mean, "mean"}, {normal, "normal"}});
}

// Whether the head is the embedding's table.
enum class Tie : uint8_t { stored, tied, untied };
constexpr auto names_of(Tie) {
  using enum Tie;
  return std::to_array<ValueName<Tie>>({{stored, "stored"}, {tied, "tied"}, {untied, "untied"}});
}

}  // namespace ravine
