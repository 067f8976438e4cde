// Choices for the vocabulary tables of a loaded model.
#pragma once
#include "config/choice.h"

namespace ravine {

// The initial value of rows that model.vocabulary adds to a table: the mean of the stored rows, or normal numbers as in
// a new model.
enum class NewRows : uint8_t { mean, normal };
constexpr auto names_of(NewRows) {
  using enum NewRows;
  return std::to_array<ValueName<NewRows>>({{mean, "mean"}, {normal, "normal"}});
}

// Weight tying: if the head uses the table of the embedding. stored: as the model is stored.
enum class Tie : uint8_t { stored, tied, untied };
constexpr auto names_of(Tie) {
  using enum Tie;
  return std::to_array<ValueName<Tie>>({{stored, "stored"}, {tied, "tied"}, {untied, "untied"}});
}

}  // namespace ravine
