#include "checks/checklist.h"

#include <fmt/format.h>

namespace ravine {

std::string of_model(const std::string& key) { return "model.model_config." + key; }
std::string shortest_text(double x) { return fmt::format("{}", x); }
std::string switch_text(bool on) { return on ? "on" : "off"; }

void Checklist::add(std::string name, std::string effect, const std::function<Cell(const Side&)>& read) {
  const Cell a = read(a_), b = read(b_);
  RowVerdict verdict = RowVerdict::different;
  if (a.text.empty() || b.text.empty())
    verdict = RowVerdict::unknown;
  else if (a.text == b.text)
    verdict = RowVerdict::equal;
  else if ((a.fixed || b.fixed) && a_.program != b_.program)
    verdict = RowVerdict::unknown;
  rows_.push_back({std::move(name), group_, verdict, {a.text, a.where}, {b.text, b.where}, std::move(effect), ""});
}

void Checklist::add_summary(std::string name, std::string effect) {
  CheckRow sum{.name = std::move(name), .verdict = RowVerdict::unknown, .effect = std::move(effect), .advice = ""};
  for (const CheckRow& r : rows_) {
    if (r.group != group_ || r.verdict == RowVerdict::unknown) continue;
    if (r.verdict == RowVerdict::different || sum.verdict == RowVerdict::unknown) sum.verdict = r.verdict;
    for (const auto& [to, from] : {std::pair{&sum.a, &r.a}, {&sum.b, &r.b}}) {
      to->text += fmt::format("{}{} {}", to->text.empty() ? "" : ", ", r.name, from->text);
      if (to->where.empty() || r.verdict == RowVerdict::different) to->where = from->where;
    }
  }
  add(std::move(sum));
}

void Checklist::add(CheckRow row) {
  row.group = group_;
  rows_.push_back(std::move(row));
}

void Checklist::advise(const std::string& text) {
  if (!rows_.empty() && rows_.back().advice.empty()) rows_.back().advice = text;
}

std::vector<CheckRow> checklist(const Side& a, const Side& b) {
  Checklist rows(a, b);
  add_structure_rows(rows);
  add_update_rows(rows);
  add_precision_rows(rows);
  add_other_rows(rows);
  return rows.take();
}

}  // namespace ravine
