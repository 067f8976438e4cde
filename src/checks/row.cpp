#include "checks/row.h"

#include <algorithm>

#include "base/error.h"
#include "config/option.h"

namespace ravine {

std::string_view name(RowVerdict verdict) {
  switch (verdict) {
    case RowVerdict::equal:
      return "equal";
    case RowVerdict::allowed:
      return "allowed";
    case RowVerdict::different:
      return "different";
    case RowVerdict::unknown:
      break;
  }
  return "unknown";
}

void allow_rows(std::vector<CheckRow>& rows, const std::vector<std::string>& allow) {
  for (const std::string& wanted : allow) {
    std::vector<std::string> names;
    bool found = false;
    for (CheckRow& row : rows) {
      names.push_back(row.name), names.push_back(row.group);
      if (row.name != wanted && row.group != wanted) continue;
      found = true;
      if (row.verdict == RowVerdict::different) row.verdict = RowVerdict::allowed;
    }
    if (!found)
      throw UserError("row '" + wanted + "'", "--allow", "it takes the name of a row or of a group of this check",
                      did_you_mean(wanted, names, "run the check without --allow, which lists the rows"));
  }
}

bool agrees(const std::vector<CheckRow>& rows) {
  return std::none_of(rows.begin(), rows.end(), [](const CheckRow& r) { return r.verdict == RowVerdict::different; });
}

Json row_json(const CheckRow& row) {
  Json json = {{"row", row.name},        {"group", row.group},  {"verdict", std::string(name(row.verdict))},
               {"a", row.a.text},        {"b", row.b.text},     {"a_where", row.a.where},
               {"b_where", row.b.where}, {"effect", row.effect}};
  if (!row.advice.empty()) json["advice"] = row.advice;
  return json;
}

}  // namespace ravine
