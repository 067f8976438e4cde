// Filters of lists and dicts: join, sort, map, select, groupby and others.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "text/jinja/builtins.h"
#include "text/jinja/cases.h"

namespace ravine::jinja {

Value Builtins::by_path(const Value& of, const Value& path) {
  if (path.is_number()) return item(of, path);
  if (!path.is_string()) raise("an attribute must be a name");
  Value v = of;
  for (std::string_view rest = path.string(); !rest.empty();) {
    budget_.step();
    size_t dot = std::min(rest.find('.'), rest.size());
    std::string_view part = rest.substr(0, dot);
    int64_t i = 0;
    bool number = std::from_chars(part.data(), part.data() + part.size(), i).ptr == part.data() + part.size() && !part.empty();
    budget_.read(part.size());
    v = item(v, number ? Value(i) : Value(part));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return v;
}

// Sorts a list. attribute: none, an attribute, or a list of attributes; the first one that differs decides.
List Builtins::sorted(const Value& v, bool reverse, bool fold_case, const Value& attribute) {
  const Value all = items(v, budget_);
  budget_.list(4 * all.list().size());
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(all.list().size());
  for (const Value& x : all.list()) {
    auto compared = [&](const Value& key) {
      return fold_case && key.is_string() ? made(lower_case(key.string(), budget_)) : key;
    };
    List keys;
    if (attribute.is_list())
      for (const Value& one : attribute.list()) keys.push_back(compared(by_path(x, one)));
    keyed.emplace_back(attribute.is_none()   ? compared(x)
                       : attribute.is_list() ? made(std::move(keys))
                                             : compared(by_path(x, attribute)),
                       x);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    budget_.values(2);
    return reverse ? less(b.first, a.first, budget_) : less(a.first, b.first, budget_);
  });
  List l;
  l.reserve(keyed.size());
  for (auto& [key, x] : keyed) l.push_back(std::move(x));
  return l;
}

// The filters select, reject, selectattr and rejectattr. Arguments: the list, (the attribute,) the name of the test,
// and its arguments.
List Builtins::picked(Arguments& a, bool by_attribute, bool keep) {
  List out;
  size_t at = by_attribute ? 2 : 1;
  std::string name = a.args.size() > at ? str(a.args[at], budget_) : "";
  const Value given = a.get(0, "");
  if (!truth(given)) return out;  // none, 0 and false too
  const Value all = items(given, budget_);
  for (const Value& x : all.list()) {
    budget_.list(1);
    Value subject = by_attribute ? by_path(x, a.get(1, "attribute")) : x;
    bool good = truth(subject);
    if (!name.empty()) {
      budget_.list(a.args.size() + 2 * a.named.size());
      Arguments t{{subject}, a.named, a.budget};
      for (size_t k = at + 1; k < a.args.size(); ++k) t.args.push_back(a.args[k]);
      good = test(name, t);
    }
    if (good == keep) out.push_back(x);
  }
  return out;
}

// Groups the elements with an equal value of the attribute, in the order of this value.
Value Builtins::grouped(Arguments& a) {
  const Value path = a.get(1, "attribute"), fallback = a.get(2, "default", None{}), all = items(a.get(0, ""), budget_);
  const bool fold_case = !truth(a.get(3, "case_sensitive", false));
  auto key_of = [&](const Value& x) {
    const Value key = by_path(x, path);
    return key.is_undefined() && !fallback.is_none() ? fallback : key;
  };
  auto compared = [&](const Value& key) {
    return fold_case && key.is_string() ? made(lower_case(key.string(), budget_)) : key;
  };
  List keyed;  // of (compared, key, element), in order
  for (const Value& x : all.list()) {
    const Value key = key_of(x);
    keyed.push_back(made(List{compared(key), key, x}, true));
  }
  keyed = sorted(Value(std::move(keyed)), false, false, Value(int64_t{0}));
  List out;
  for (size_t i = 0; i < keyed.size();) {
    List members;
    const Value first = keyed[i];
    for (; i < keyed.size() && equal(first.list()[0], keyed[i].list()[0], budget_); ++i) members.push_back(keyed[i].list()[2]);
    budget_.list(members.size() + 4);
    out.push_back(Value::group(first.list()[1], std::move(members)));
  }
  return Value(std::move(out));
}

Value Builtins::joined(const Value& v, Arguments& a) {
  std::string by = str(a.get(1, "d", Value("")), budget_), out;
  Value attribute = a.get(2, "attribute", None{});
  bool first = true;
  const Value all = items(v, budget_);
  for (const Value& x : all.list()) {
    budget_.step();
    if (!first) append(out, by, budget_);
    first = false;
    append_str(out, attribute.is_none() ? x : by_path(x, attribute), budget_);
  }
  budget_.bytes(Budget::kTextBytes);
  return Value(std::move(out));
}

Value Builtins::unique(const Value& v, Arguments& a) {
  List out, keys;
  bool exact = truth(a.get(1, "case_sensitive", false));
  Value attribute = a.get(2, "attribute", None{});
  const Value all = items(v, budget_);
  for (const Value& x : all.list()) {
    budget_.list(2);
    Value key = attribute.is_none() ? x : by_path(x, attribute);
    if (!exact && key.is_string()) key = made(lower_case(key.string(), budget_));
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key, budget_); })) continue;
    keys.push_back(key);
    out.push_back(x);
  }
  return out;
}

Value Builtins::mapped(const Value& v, Arguments& a) {
  List out;
  if (!truth(v)) return out;
  const Value all = items(v, budget_);
  for (const Value& x : all.list()) {
    budget_.list(1);
    if (a.args.size() < 2) {
      Value r = by_path(x, a.get(1, "attribute"));
      out.push_back(r.is_undefined() ? a.get(9, "default", r) : r);
    } else {
      budget_.list(a.args.size() + 2 * a.named.size());
      Arguments f{{x}, a.named, a.budget};
      for (size_t k = 2; k < a.args.size(); ++k) f.args.push_back(a.args[k]);
      out.push_back(filter(str(a.args[1], budget_), f));
    }
  }
  return out;
}

Value Builtins::batches(const Value& v, Arguments& a) {
  List out, row;
  Value n = a.get(1, "linecount");
  if (!n.is_number() || n.integer() < 1) raise("batch needs a count");
  const Value all = items(v, budget_);
  budget_.list(4 * all.list().size());
  for (const Value& x : all.list()) {
    row.push_back(x);
    if (static_cast<int64_t>(row.size()) == n.integer()) out.emplace_back(std::exchange(row, {}));
  }
  if (const Value fill = a.get(2, "fill_with", None{}); !row.empty() && !fill.is_none()) {
    budget_.list(static_cast<size_t>(n.integer()));
    row.resize(static_cast<size_t>(n.integer()), fill);
  }
  if (!row.empty()) out.emplace_back(row);
  return out;
}

Value Builtins::slices(const Value& v, Arguments& a) {
  const Value n = a.get(1, "slices"), fill = a.get(2, "fill_with", None{});
  if (!n.is_number() || n.is_float() || n.integer() == 0) raise("slice needs a count");
  const Value all = items(v, budget_);
  const List& list = all.list();
  List out;
  if (n.integer() < 0) return out;
  const int64_t each = static_cast<int64_t>(list.size()) / n.integer(), more = static_cast<int64_t>(list.size()) % n.integer();
  auto at = list.begin();
  for (int64_t i = 0; i < n.integer(); ++i) {
    const auto end = at + static_cast<ptrdiff_t>(each + (i < more));
    List part(at, end);
    if (!fill.is_none() && i >= more) part.push_back(fill);
    budget_.list(part.size() + 1);
    out.emplace_back(std::move(part));
    at = end;
  }
  return out;
}

Value Builtins::list_filter(const std::string& name, Arguments& a, bool& known) {
  known = true;
  const Value v = a.get(0, "");
  if (name == "join") return joined(v, a);
  if (name == "list") {
    const Value all = items(v, budget_);
    return all.is_tuple() || all.is_range() ? made(List(all.list())) : all;
  }
  if (name == "first" || name == "last") {
    const Value all = items(v, budget_);
    if (!truth(all)) return Undefined(name + " item");
    if (all.is_open() && name == "first") return all.open().at(0);
    return name == "first" ? all.list().front() : all.list().back();
  }
  if (name == "reverse") {
    if (v.is_string()) {
      budget_.chars(4 * v.string().size());
      budget_.bytes(4 * v.string().size());
      std::u32string s = chars(v.string());
      std::reverse(s.begin(), s.end());
      return made_like(v, utf8(s));
    }
    const Value all = items(v, budget_);
    return made(List(all.list().rbegin(), all.list().rend()));
  }
  if (name == "sort") {
    Value attribute = a.get(3, "attribute", None{});
    if (attribute.is_string() && attribute.string().find(',') != std::string::npos) {
      List several;
      for (const std::string& one : split(attribute.string(), ',')) several.emplace_back(one);
      attribute = made(std::move(several));
    }
    return sorted(v, truth(a.get(1, "reverse", false)), !truth(a.get(2, "case_sensitive", false)), attribute);
  }
  if (name == "min" || name == "max") {
    List l = sorted(v, false, !truth(a.get(1, "case_sensitive", false)), a.get(2, "attribute", None{}));
    if (l.empty()) return Undefined("item");
    return name == "min" ? l.front() : l.back();
  }
  if (name == "sum") {
    Value total = a.get(2, "start", Value(int64_t{0})), attribute = a.get(1, "attribute", None{});
    const Value all = items(v, budget_);
    for (const Value& x : all.list()) {
      budget_.step();
      total = binary("+", total, attribute.is_none() ? x : by_path(x, attribute));
    }
    return total;
  }
  if (name == "unique") return unique(v, a);
  if (name == "map") return mapped(v, a);
  if (name == "select" || name == "reject") return picked(a, false, name == "select");
  if (name == "selectattr" || name == "rejectattr") return picked(a, true, name == "selectattr");
  if (name == "items") {
    if (v.is_undefined()) return List{};
    if (!v.is_dict()) raise("items needs a mapping");
    Arguments none{{}, {}, a.budget};
    return attribute(v, "items").function()(none);
  }
  if (name == "dictsort") {
    if (!v.is_dict()) raise("dictsort needs a mapping");
    List l;
    budget_.list(5 * v.dict().size());
    for (const auto& [k, x] : v.dict()) l.push_back(Value(List{k, x}, true));
    Value by = a.get(2, "by", Value("key"));
    return sorted(Value(l), truth(a.get(3, "reverse", false)), !truth(a.get(1, "case_sensitive", false)),
                  Value(by.is_string() && by.string() == "value" ? int64_t{1} : int64_t{0}));
  }
  if (name == "batch") return batches(v, a);
  if (name == "slice") return slices(v, a);
  if (name == "groupby") return grouped(a);
  known = false;
  return {};
}

}  // namespace ravine::jinja
