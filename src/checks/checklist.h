// The checklist of the precision guide: every property of a training that decides its numbers, a row each, held side
// against side. Rows have the names of MindFormers' keys where it has one. One file for each group of rows.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "checks/row.h"
#include "checks/side.h"

namespace ravine {

// The value of one side in a row. text: "" if the side does not tell. fixed: the program has no setting for it, or its
// own default decides how it computes. A difference between a fixed value and another program's cannot be judged.
struct Cell {
  std::string text, where;
  bool fixed = false;
};

// The rows of a check while they are made.
class Checklist {
 public:
  Checklist(const Side& a, const Side& b) : a_(a), b_(b) {}
  void begin_group(std::string group) { group_ = std::move(group); }
  // Adds a row with the value that `read` returns of each side. effect: what a difference does to the numbers.
  void add(std::string name, std::string effect, const std::function<Cell(const Side&)>& read);
  // Adds a row on all rows of the group so far: different if one of them is. Its text lists their values.
  void add_summary(std::string name, std::string effect);
  // Adds a row whose verdict is known.
  void add(CheckRow row);
  // Adds advice to the last row, if it has none: a rule of the guide that both sides break.
  void advise(const std::string& text);
  const Side& a() const { return a_; }
  const Side& b() const { return b_; }
  std::vector<CheckRow> take() { return std::move(rows_); }

 private:
  const Side &a_, &b_;
  std::string group_;
  std::vector<CheckRow> rows_;
};

// Returns all rows of the checklist, in its order.
std::vector<CheckRow> checklist(const Side& a, const Side& b);

void add_structure_rows(Checklist& rows);  // structure, fused calculations, experts
void add_update_rows(Checklist& rows);     // optimizer, learning rate, weights
void add_precision_rows(Checklist& rows);  // the number format of each kind of operation
void add_other_rows(Checklist& rows);      // parallel, data, special tokens, runtime

// Returns the name of a key of model.model_config, where MindFormers' file has the network.
std::string of_model(const std::string& key);
std::string shortest_text(double x);  // the shortest text that reads back exactly
std::string switch_text(bool on);     // "on" or "off"

// Returns the learning rates of updates 1, 2, .. of a side; empty if its number of steps is not known, or validation
// losses decide the rates.
std::vector<double> learning_rates(const Side& side);

// Returns the number format that a side computes in: "f32", "bf16", ..; "" if the machine decides it.
std::string compute_type(const Side& side);

}  // namespace ravine
