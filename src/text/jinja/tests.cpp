// Tests of templates, such as "x is odd" (jinja2/tests.py).
#include "text/jinja/builtins.h"

namespace ravine::jinja {

bool Builtins::has_test(std::string_view name) const {
  for (std::string_view t : {"defined", "undefined", "none",   "boolean",     "true",     "false",    "integer",
                             "float",   "number",    "string", "mapping",     "iterable", "sequence", "callable",
                             "sameas",  "equalto",   "eq",     "==",          "ne",       "!=",       "lt",
                             "<",       "lessthan",  "le",     "<=",          "gt",       ">",        "greaterthan",
                             "ge",      ">=",        "in",     "divisibleby", "odd",      "even",     "upper",
                             "lower",   "test",      "filter", "escaped"})
    if (t == name) return true;
  return false;
}

bool Builtins::test(const std::string& name, Arguments& a) {
  budget_.step();
  if (!has_test(name)) raise("no test named '{}'", shown(name));
  const Value v = a.get(0, ""), w = a.get(1, "other");
  if (name == "defined") return !v.is_undefined();
  if (name == "undefined") return v.is_undefined();
  if (name == "none") return v.is_none();
  if (name == "boolean") return v.is_bool();
  if (name == "true") return v.is_bool() && v.boolean();
  if (name == "false") return v.is_bool() && !v.boolean();
  if (name == "integer") return v.is_int();
  if (name == "float") return v.is_float();
  if (name == "number") return v.is_number();
  if (name == "string") return v.is_string();
  if (name == "mapping") return v.is_dict();
  if (name == "iterable" || name == "sequence") return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
  if (name == "callable") return v.is_function();
  if (name == "test") return v.is_string() && has_test(v.string());
  if (name == "filter") return v.is_string() && has_filter(v.string());
  if (name == "escaped") return v.is_markup();
  if (name == "sameas") return std::string_view(type_name(v)) == type_name(w) && equal(v, w, budget_);
  if (name == "equalto" || name == "eq" || name == "==") return equal(v, w, budget_);
  if (name == "ne" || name == "!=") return !equal(v, w, budget_);
  if (name == "lt" || name == "<" || name == "lessthan") return less(v, w, budget_);
  if (name == "gt" || name == ">" || name == "greaterthan") return less(w, v, budget_);
  if (name == "le" || name == "<=") return !less(w, v, budget_);
  if (name == "ge" || name == ">=") return !less(v, w, budget_);
  if (name == "in") return contains(w, v, budget_);
  if (name == "upper" || name == "lower") {
    Value method = attribute(v.is_string() ? v : made(str(v, budget_)), name == "upper" ? "isupper" : "islower");
    Arguments none{{}, {}, a.budget};
    return truth(method.function()(none));
  }
  if (!v.is_number() || v.is_float()) raise("the test '{}' needs an integer", name);
  if (name == "odd") return v.integer() % 2 != 0;
  if (name == "even") return v.integer() % 2 == 0;
  if (!w.is_number() || w.integer() == 0) raise("divisibleby needs a number");
  return w.integer() == -1 || v.integer() % w.integer() == 0;
}

}  // namespace ravine::jinja
