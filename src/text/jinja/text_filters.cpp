// Filters of texts: trim, upper, lower, title, capitalize, string, replace, tojson.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/cases.h"
#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

// The filter title: letters after white space and after '-', '(', '[', '{', '<' become upper case.
std::string titled(std::string_view text, Budget& budget) {
  auto parts = [](char32_t c) {
    return is_unicode_space(c) || std::u32string_view(U"-([{<").find(c) != std::u32string_view::npos;
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t first = at;
    if (parts(next_char(text, at))) {
      out += text.substr(first, at - first);
      continue;
    }
    size_t end = at;
    for (size_t next = at; next < text.size() && !parts(next_char(text, next));) end = next;
    out += upper_case(text.substr(first, at - first), budget) + lower_case(text.substr(at, end - at), budget);
    at = end;
  }
  return out;
}

}  // namespace

Value Builtins::text_filter(const std::string& name, Arguments& a, bool& known) {
  known = true;
  Value v = a.get(0, "");
  auto text = [&] { return str(v, budget_); };
  if (name == "trim") {
    const Value x = v.is_string() ? v : made(text());
    Value strip = attribute(x, "strip");
    Arguments none{{}, {}, a.budget};
    if (a.has(1, "chars")) none.args.push_back(a.get(1, "chars"));
    return strip.function()(none);
  }
  if (name == "upper" || name == "lower") {
    const std::string s = text();
    return made_like(v, name == "upper" ? upper_case(s, budget_) : lower_case(s, budget_));
  }
  if (name == "title") return made(titled(text(), budget_));
  if (name == "capitalize") return made_like(v, capitalized(text(), budget_));
  if (name == "string") return v.is_string() ? v : made(text());
  if (name == "replace") {
    std::string s = text(), from = str(a.get(1, "old"), budget_), to = str(a.get(2, "new"), budget_), out;
    Value limit = a.get(3, "count", None{});
    int64_t most = limit.is_none() ? -1 : limit.is_number() ? limit.integer() : -1;
    if (from.empty()) raise("replace needs a text to look for");
    size_t at = 0;
    for (size_t found; most != 0 && (found = find_in(s, from, at, budget_)) != std::string::npos; at = found + from.size()) {
      budget_.step();
      append(out, std::string_view(s).substr(at, found - at), budget_);
      append(out, to, budget_);
      if (most > 0) --most;
    }
    append(out, std::string_view(s).substr(at), budget_);
    budget_.bytes(Budget::kTextBytes);
    return Value(std::move(out));
  }
  if (name == "tojson") {
    const Value indent = a.get(2, "indent", None{}), separators = a.get(3, "separators", None{});
    JsonStyle style;
    style.ascii = truth(a.get(1, "ensure_ascii", false)), style.sort = truth(a.get(4, "sort_keys", false));
    if (indent.is_string()) style.indent = indent.string();
    if (indent.is_number()) {
      if (indent.integer() > 1000) raise("tojson takes an indent of 1000 at most");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(indent.integer(), 0)), ' ');
    }
    if (style.indent) style.comma = ",";
    if (!separators.is_none()) {
      if (!separators.is_list() || separators.list().size() != 2 || !separators.list()[0].is_string() ||
          !separators.list()[1].is_string())
        raise("tojson: separators are a pair of texts");
      style.comma = separators.list()[0].string(), style.colon = separators.list()[1].string();
    }
    return made(to_json(v, style, budget_));
  }
  known = false;
  return {};
}

}  // namespace ravine::jinja
