// Methods of strings, lists and dicts; none of them changes anything.
#include <algorithm>

#include "data/jinja/builtins.h"
#include "data/tokenizers/unicode.h"

namespace ravine::jinja {

namespace {

const std::string& text_of(const Value& v, const char* what) {
  if (!v.is_string()) raise("{} must be a string, not {}", what, type_name(v));
  return v.string();
}

std::u32string_view strip(std::u32string_view s, const Value& set, bool left, bool right) {
  std::u32string of = set.is_string() ? chars(set.string()) : std::u32string();
  auto drops = [&](char32_t c) { return set.is_string() ? of.find(c) != of.npos : is_unicode_space(c); };
  while (left && !s.empty() && drops(s.front())) s.remove_prefix(1);
  while (right && !s.empty() && drops(s.back())) s.remove_suffix(1);
  return s;
}

List split_spaces(const std::string& text, int64_t most, bool from_right) {
  std::u32string s = chars(text);
  List out;
  auto space = [&](size_t i) { return is_unicode_space(s[i]); };
  if (!from_right) {
    for (size_t i = 0;;) {
      while (i < s.size() && space(i)) ++i;
      if (i >= s.size()) return out;
      size_t end = i;
      if (most >= 0 && static_cast<int64_t>(out.size()) >= most) {
        end = s.size();
        while (end > i && space(end - 1)) --end;
        out.emplace_back(utf8(std::u32string_view(s).substr(i, end - i)));
        return out;
      }
      while (end < s.size() && !space(end)) ++end;
      out.emplace_back(utf8(std::u32string_view(s).substr(i, end - i)));
      i = end;
    }
  }
  for (size_t end = s.size();;) {
    while (end > 0 && space(end - 1)) --end;
    if (end == 0) break;
    size_t i = end;
    if (most >= 0 && static_cast<int64_t>(out.size()) >= most) {
      i = 0;
      while (i < end && space(i)) ++i;
    } else {
      while (i > 0 && !space(i - 1)) --i;
    }
    out.emplace_back(utf8(std::u32string_view(s).substr(i, end - i)));
    if (most >= 0 && static_cast<int64_t>(out.size()) > most) break;
    end = i;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

List split_by(const std::string& s, const std::string& by, int64_t most, bool from_right) {
  if (by.empty()) raise("empty separator");
  List out;
  if (!from_right) {
    size_t from = 0;
    for (size_t at; (most < 0 || static_cast<int64_t>(out.size()) < most) && (at = s.find(by, from)) != std::string::npos; from = at + by.size())
      out.emplace_back(s.substr(from, at - from));
    out.emplace_back(s.substr(from));
    return out;
  }
  size_t end = s.size();
  while ((most < 0 || static_cast<int64_t>(out.size()) < most) && end >= by.size()) {
    size_t at = s.rfind(by, end - by.size());
    if (at == std::string::npos) break;
    out.emplace_back(s.substr(at + by.size(), end - at - by.size()));
    end = at;
  }
  out.emplace_back(s.substr(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

List split_lines(const std::string& s, bool keep) {
  List out;
  for (size_t from = 0; from < s.size();) {
    size_t end = s.find_first_of("\r\n\v\f", from);
    if (end == std::string::npos) {
      out.emplace_back(s.substr(from));
      break;
    }
    size_t next = end + (s.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    out.emplace_back(s.substr(from, (keep ? next : end) - from));
    from = next;
  }
  return out;
}

std::string upper(std::u32string_view s) {
  std::string out;
  for (char32_t c : s) append_upper(out, c);
  return out;
}
std::string lower(std::u32string_view s) {
  std::string out;
  for (char32_t c : s) append_lower(out, c);
  return out;
}

template <class F>
bool all_chars(const std::string& s, F&& f) {
  std::u32string c = chars(s);
  return !c.empty() && std::all_of(c.begin(), c.end(), f);
}

int64_t count_of(const std::string& s, const std::string& what) {
  int64_t n = 0;
  if (what.empty()) return static_cast<int64_t>(chars(s).size()) + 1;
  for (size_t at = 0; (at = s.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

bool any_affix(const std::string& s, const Value& affix, bool front) {
  auto one = [&](const Value& v) {
    const std::string& a = text_of(v, "the affix");
    return front ? s.starts_with(a) : s.ends_with(a);
  };
  if (affix.is_list()) return std::any_of(affix.list().begin(), affix.list().end(), one);
  return one(affix);
}

}  // namespace

Value Builtins::text_method(const Value& of, std::string_view name) {
  auto fn = [](Function f) { return Value(std::move(f)); };
  const Value self = of;
  Builtins* b = this;
  auto limit = [](Arguments& a, size_t at) {
    Value v = a.get(at, "maxsplit", Value(int64_t{-1}));
    if (!v.is_number() || v.is_float()) raise("maxsplit must be an integer");
    return v.integer();
  };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    bool left = name != "rstrip", right = name != "lstrip";
    return fn([=](Arguments& a) { return b->made(utf8(strip(chars(self.string()), a.get(0, "chars", None{}), left, right))); });
  }
  if (name == "split" || name == "rsplit") {
    bool right = name == "rsplit";
    return fn([=](Arguments& a) {
      Value by = a.get(0, "sep", None{});
      b->made(self.string());
      return Value(by.is_none() ? split_spaces(self.string(), limit(a, 1), right)
                                : split_by(self.string(), text_of(by, "the separator"), limit(a, 1), right));
    });
  }
  if (name == "splitlines") return fn([=](Arguments& a) { return b->made(self.string()), Value(split_lines(self.string(), truth(a.get(0, "keepends", false)))); });
  if (name == "upper") return fn([=](Arguments&) { return b->made(upper(chars(self.string()))); });
  if (name == "lower") return fn([=](Arguments&) { return b->made(lower(chars(self.string()))); });
  if (name == "title" || name == "capitalize") {
    std::string filter(name);
    return fn([=](Arguments& a) {
      Arguments x{{self}, {}, a.budget};
      return b->filter(filter, x);
    });
  }
  if (name == "startswith" || name == "endswith") {
    bool front = name == "startswith";
    return fn([=](Arguments& a) { return Value(any_affix(self.string(), a.get(0, ""), front)); });
  }
  if (name == "removeprefix" || name == "removesuffix") {
    bool front = name == "removeprefix";
    return fn([=](Arguments& a) {
      std::string_view s = self.string();
      const std::string& affix = text_of(a.get(0, ""), "the affix");
      if (front && s.starts_with(affix)) s.remove_prefix(affix.size());
      if (!front && s.ends_with(affix)) s.remove_suffix(affix.size());
      return b->made(std::string(s));
    });
  }
  if (name == "replace")
    return fn([=](Arguments& a) {
      Arguments x{{self, a.get(0, "old"), a.get(1, "new"), a.get(2, "count", None{})}, {}, a.budget};
      return b->filter("replace", x);
    });
  if (name == "join")
    return fn([=](Arguments& a) {
      Arguments x{{a.get(0, "iterable"), self}, {}, a.budget};
      return b->filter("join", x);
    });
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex") {
    bool right = name[0] == 'r', must = name.ends_with("index");
    return fn([=](Arguments& a) {
      a.at_most("find", 1);
      const std::string& s = self.string();
      size_t at = right ? s.rfind(text_of(a.get(0, ""), "what is looked for")) : s.find(text_of(a.get(0, ""), "what is looked for"));
      if (at == std::string::npos && must) raise("substring not found");
      return Value(at == std::string::npos ? int64_t{-1} : static_cast<int64_t>(chars(std::string_view(s).substr(0, at)).size()));
    });
  }
  if (name == "count") return fn([=](Arguments& a) { return Value(count_of(self.string(), text_of(a.get(0, ""), "what is counted"))); });
  auto all = [&](bool (*f)(char32_t)) { return fn([=](Arguments&) { return Value(all_chars(self.string(), f)); }); };
  if (name == "isdigit") return all([](char32_t c) { return c >= '0' && c <= '9'; });
  if (name == "isspace") return all(is_unicode_space);
  auto classes = [&](uint8_t of) {
    return fn([=, table = char_table()](Arguments&) { return Value(all_chars(self.string(), [&](char32_t c) { return (table->of(c) & of) != 0; })); });
  };
  if (name == "isalpha") return classes(kLetter);
  if (name == "isalnum") return classes(kLetter | kNumber);
  if (name == "isupper") return fn([=](Arguments&) { auto c = chars(self.string()); return Value(upper(c) == self.string() && lower(c) != self.string()); });
  if (name == "islower") return fn([=](Arguments&) { auto c = chars(self.string()); return Value(lower(c) == self.string() && upper(c) != self.string()); });
  return Undefined{std::string(name)};
}

Value Builtins::method(const Value& of, std::string_view name) {
  if (of.is_string()) return text_method(of, name);
  const Value self = of;
  Budget* budget = &budget_;
  if (of.is_dict()) {
    if (name == "items" || name == "keys" || name == "values") {
      char kind = name[0];
      return Value(Function([=](Arguments&) {
        List l;
        budget->step(static_cast<int64_t>(self.dict().size()));
        budget->bytes(self.dict().size() * 2 * sizeof(Value));
        for (const auto& [k, v] : self.dict()) l.push_back(kind == 'k' ? k : kind == 'v' ? v : Value(List{k, v}, true));
        return Value(std::move(l));
      }));
    }
    if (name == "get")
      return Value(Function([=](Arguments& a) {
        const Value* v = lookup(self.dict(), a.get(0, "key"));
        return v ? *v : a.get(1, "default", None{});
      }));
    if (name == "copy") return Value(Function([=](Arguments&) { return self; }));
    for (std::string_view n : {"update", "pop", "setdefault", "clear", "popitem"})
      if (name == n && !lookup(of.dict(), Value(name))) raise("{} would change a dict, which a template may not", name);
  }
  if (of.is_list()) {
    if (name == "index" || name == "count") {
      bool index = name == "index";
      return Value(Function([=](Arguments& a) {
        int64_t n = 0, i = 0;
        Value what = a.get(0, "value");
        for (const Value& v : self.list()) {
          if (equal(v, what)) {
            if (index) return Value(i);
            ++n;
          }
          ++i;
        }
        if (index) raise("value is not in list");
        return Value(n);
      }));
    }
    for (std::string_view n : {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"})
      if (name == n) raise("{} would change a list, which a template may not", name);
  }
  return Undefined{std::string(name)};
}

}  // namespace ravine::jinja
