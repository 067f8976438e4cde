// Filters by their names (jinja2/filters.py). Filters of texts, layout, lists and numbers are in separate files.
#include "text/jinja/builtins.h"

namespace ravine::jinja {

Value Builtins::filter(const std::string& name, Arguments& a) {
  Budget::Level level(budget_);
  budget_.work(int64_t{16});
  bool known = false;
  Value r = text_filter(name, a, known);
  if (known) return r;
  r = layout_filter(name, a, known);
  if (known) return r;
  r = list_filter(name, a, known);
  if (known) return r;
  r = number_filter(name, a, known);
  if (known) return r;
  const Value v = a.get(0, "");
  if (name == "length" || name == "count") return length(v, budget_);
  if (name == "default" || name == "d") {
    bool use = v.is_undefined() || (truth(a.get(2, "boolean", false)) && !truth(v));
    return use ? a.get(1, "default_value", Value("")) : v;
  }
  if (name == "attr") {  // never an item of a dict
    const std::string of = str(a.get(1, "name"), budget_);
    return v.is_dict() ? method(v, of) : attribute(v, of);
  }
  raise("no filter named '{}'", shown(name));
}

bool Builtins::has_filter(std::string_view name) const {
  for (std::string_view f :
       {"abs",        "attr",   "batch",     "capitalize", "center",      "count",          "d",      "default", "dictsort",
        "e",          "escape", "first",     "float",      "forceescape", "filesizeformat", "format", "groupby", "indent",
        "int",        "items",  "join",      "last",       "length",      "list",           "lower",  "map",     "max",
        "min",        "pprint", "reject",    "rejectattr", "replace",     "reverse",        "round",  "safe",    "select",
        "selectattr", "slice",  "sort",      "string",     "sum",         "title",          "tojson", "trim",    "truncate",
        "unique",     "upper",  "urlencode", "wordcount"})
    if (f == name) return true;
  return false;
}

}  // namespace ravine::jinja
