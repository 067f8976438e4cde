// Methods of strings, lists and dicts. No method changes its object.
#include <algorithm>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/jinja/cases.h"
#include "text/unicode/unicode.h"

namespace ravine::jinja {

namespace {

constexpr int64_t kWidestText = 100'000;

const std::string& text_of(const Value& v, const char* what) {
  if (!v.is_string()) raise("{} must be a string, not {}", what, type_name(v));
  return v.string();
}

// Continuation byte of a character in UTF-8.
bool is_tail(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Strips characters from both ends; the rest of the text is not read.
std::string_view strip(std::string_view s, const Value& set, bool left, bool right, Budget& budget) {
  std::u32string of = set.is_string() ? chars(set.string()) : std::u32string();
  auto drops = [&](std::string_view c) {
    size_t at = 0;
    budget.work(2 + of.size() / 2);
    char32_t x = next_char(c, at);
    return set.is_string() ? of.find(x) != of.npos : is_unicode_space(x);
  };
  while (left && !s.empty()) {
    size_t n = 1;
    while (n < s.size() && is_tail(s[n])) ++n;
    if (!drops(s.substr(0, n))) break;
    s.remove_prefix(n);
  }
  while (right && !s.empty()) {
    size_t n = s.size() - 1;
    while (n > 0 && is_tail(s[n])) --n;
    if (!drops(s.substr(n))) break;
    s = s.substr(0, n);
  }
  return s;
}

// Collects pieces of a text, counted in the budget.
class Pieces {
 public:
  explicit Pieces(Budget& budget) : budget_(budget) {}
  void add(std::string_view s) {
    budget_.work(int64_t{8});
    budget_.read(s.size());
    budget_.bytes(sizeof(Value) + Budget::kTextBytes + s.size());
    list.emplace_back(s);
  }
  int64_t count() const { return static_cast<int64_t>(list.size()); }
  List list;

 private:
  Budget& budget_;
};

List split_spaces(const std::string& text, int64_t most, bool from_right, Budget& budget) {
  budget.chars(6 * text.size());
  budget.bytes(4 * text.size());
  std::u32string s = chars(text);
  Pieces out(budget);
  auto space = [&](size_t i) { return is_unicode_space(s[i]); };
  auto piece = [&](size_t begin, size_t end) { out.add(utf8(std::u32string_view(s).substr(begin, end - begin))); };
  if (!from_right) {
    for (size_t i = 0;;) {
      while (i < s.size() && space(i)) ++i;
      if (i >= s.size()) return std::move(out.list);
      size_t end = i;
      if (most >= 0 && out.count() >= most) {
        piece(i, s.size());  // the rest unchanged
        return std::move(out.list);
      }
      while (end < s.size() && !space(end)) ++end;
      piece(i, end);
      i = end;
    }
  }
  for (size_t end = s.size();;) {
    while (end > 0 && space(end - 1)) --end;
    if (end == 0) break;
    size_t i = end;
    if (most >= 0 && out.count() >= most) {
      i = 0;
    } else {
      while (i > 0 && !space(i - 1)) --i;
    }
    piece(i, end);
    if (most >= 0 && out.count() > most) break;
    end = i;
  }
  std::reverse(out.list.begin(), out.list.end());
  return std::move(out.list);
}

List split_by(const std::string& s, const std::string& by, int64_t most, bool from_right, Budget& budget) {
  if (by.empty()) raise("empty separator");
  if (from_right) {  // searches forward in the reversed text
    budget.chars(2 * (s.size() + by.size()));
    budget.bytes(s.size() + by.size());
    List mirrored = split_by({s.rbegin(), s.rend()}, {by.rbegin(), by.rend()}, most, false, budget);
    Pieces out(budget);
    for (size_t i = mirrored.size(); i-- > 0;) {
      const std::string& piece = mirrored[i].string();
      budget.chars(piece.size());
      out.add(std::string(piece.rbegin(), piece.rend()));
    }
    return std::move(out.list);
  }
  Pieces out(budget);
  std::string_view text = s;
  size_t from = 0;
  for (size_t at; (most < 0 || out.count() < most) && (at = find_in(text, by, from, budget)) != std::string::npos;
       from = at + by.size())
    out.add(text.substr(from, at - from));
  out.add(text.substr(from));
  return std::move(out.list);
}

List split_lines(const std::string& s, bool keep, Budget& budget) {
  budget.chars(s.size());
  Pieces out(budget);
  std::string_view text = s;
  for (size_t from = 0; from < s.size();) {
    size_t end = s.find_first_of("\r\n\v\f", from);
    if (end == std::string::npos) {
      out.add(text.substr(from));
      break;
    }
    size_t next = end + (s.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    out.add(text.substr(from, (keep ? next : end) - from));
    from = next;
  }
  return std::move(out.list);
}

// Python's str.expandtabs.
std::string without_tabs(std::string_view s, int64_t size, Budget& budget) {
  budget.chars(s.size());
  std::string out;
  int64_t column = 0;
  for (const char c : s) {
    if (c != '\t') {
      column = c == '\n' || c == '\r' ? 0 : column + !is_tail(c);
      out += c;
      continue;
    }
    const int64_t n = size > 0 ? size - column % size : 0;
    append(out, std::string(static_cast<size_t>(n), ' '), budget);
    column += n;
  }
  return out;
}

template <class F>
bool all_chars(std::string_view s, F&& f, Budget& budget) {
  budget.chars(2 * s.size());
  for (size_t at = 0; at < s.size();)
    if (!f(next_char(s, at))) return false;
  return !s.empty();
}

int64_t count_of(const Value& of, const std::string& what, Budget& budget) {
  int64_t n = 0;
  if (what.empty()) return length(of, budget) + 1;
  for (size_t at = 0; (at = find_in(of.string(), what, at, budget)) != std::string::npos; at += what.size()) {
    budget.step();
    ++n;
  }
  return n;
}

bool any_affix(const std::string& s, const Value& affix, bool front, Budget& budget) {
  auto one = [&](const Value& v) {
    const std::string& a = text_of(v, "the affix");
    budget.values(1);
    budget.read(std::min(a.size(), s.size()));
    return front ? s.starts_with(a) : s.ends_with(a);
  };
  if (affix.is_list()) return std::any_of(affix.list().begin(), affix.list().end(), one);
  return one(affix);
}

// Methods of strings by subject. Each function returns the method of that name, bound to `self`; nothing if the name is
// not its own. The bound method keeps a copy of `self`.

// Methods that change the case of letters.
std::optional<Function> case_method(Builtins* b, Budget* budget, const Value& self, std::string_view name) {
  if (name == "upper") return Function([=](Arguments&) { return b->made(upper_case(self.string(), *budget)); });
  if (name == "lower") return Function([=](Arguments&) { return b->made(lower_case(self.string(), *budget)); });
  if (name == "title") return Function([=](Arguments&) { return b->made(title_case(self.string(), *budget)); });
  if (name == "capitalize")
    return Function([=](Arguments& a) {
      Arguments x{{self}, {}, a.budget};
      return b->filter("capitalize", x);
    });
  if (name == "casefold") return Function([=](Arguments&) { return b->made(folded_case(self.string(), *budget)); });
  if (name == "swapcase") return Function([=](Arguments&) { return b->made(swapped_case(self.string(), *budget)); });
  return std::nullopt;
}

// Methods that cut a string.
std::optional<Function> cut_method(Builtins* b, Budget* budget, const Value& self, std::string_view name) {
  auto limit = [](Arguments& a, size_t at) {
    Value v = a.get(at, "maxsplit", Value(int64_t{-1}));
    if (!v.is_number() || v.is_float()) raise("maxsplit must be an integer");
    return v.integer();
  };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    bool left = name != "rstrip", right = name != "lstrip";
    return Function([=](Arguments& a) {
      return b->made(std::string(strip(self.string(), a.get(0, "chars", None{}), left, right, *budget)));
    });
  }
  if (name == "split" || name == "rsplit") {
    bool right = name == "rsplit";
    return Function([=](Arguments& a) {
      Value by = a.get(0, "sep", None{});
      return Value(by.is_none() ? split_spaces(self.string(), limit(a, 1), right, *budget)
                                : split_by(self.string(), text_of(by, "the separator"), limit(a, 1), right, *budget));
    });
  }
  if (name == "splitlines")
    return Function(
        [=](Arguments& a) { return Value(split_lines(self.string(), truth(a.get(0, "keepends", false)), *budget)); });
  if (name == "removeprefix" || name == "removesuffix") {
    bool front = name == "removeprefix";
    return Function([=](Arguments& a) {
      std::string_view s = self.string();
      const Value given = a.get(0, "");
      const std::string& affix = text_of(given, "the affix");
      budget->read(std::min(affix.size(), s.size()));
      if (front && s.starts_with(affix)) s.remove_prefix(affix.size());
      if (!front && s.ends_with(affix)) s.remove_suffix(affix.size());
      return b->made(std::string(s));
    });
  }
  if (name == "partition" || name == "rpartition") {
    const bool right = name[0] == 'r';
    return Function([=](Arguments& a) {
      const Value by = a.get(0, "sep");
      const std::string &s = self.string(), &what = text_of(by, "the separator");
      if (what.empty()) raise("empty separator");
      const size_t at = right ? find_last(s, what, s.size(), *budget) : find_in(s, what, 0, *budget);
      budget->bytes(s.size());
      if (at == std::string::npos) return b->made(right ? List{"", "", self} : List{self, "", ""}, true);
      return b->made(List{Value(s.substr(0, at)), Value(what), Value(s.substr(at + what.size()))}, true);
    });
  }
  return std::nullopt;
}

// Methods that search in a string.
std::optional<Function> search_method(Builtins* /*b*/, Budget* budget, const Value& self, std::string_view name) {
  if (name == "startswith" || name == "endswith") {
    bool front = name == "startswith";
    return Function([=](Arguments& a) { return Value(any_affix(self.string(), a.get(0, ""), front, *budget)); });
  }
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex") {
    bool right = name[0] == 'r', must = name.ends_with("index");
    return Function([=](Arguments& a) {
      a.at_most("find", 1);
      const std::string& s = self.string();
      const Value given = a.get(0, "");
      const std::string& what = text_of(given, "what is looked for");
      size_t at = right ? find_last(s, what, s.size(), *budget) : find_in(s, what, 0, *budget);
      if (at == std::string::npos && must) raise("substring not found");
      if (at == std::string::npos) return Value(int64_t{-1});
      budget->chars(at);
      return Value(std::count_if(s.begin(), s.begin() + static_cast<ptrdiff_t>(at), [](char c) { return !is_tail(c); }));
    });
  }
  if (name == "count")
    return Function([=](Arguments& a) { return Value(count_of(self, text_of(a.get(0, ""), "what is counted"), *budget)); });
  return std::nullopt;
}

// Methods that put values into a string.
std::optional<Function> compose_method(Builtins* b, Budget* budget, const Value& self, std::string_view name) {
  if (name == "replace")
    return Function([=](Arguments& a) {
      Value with = a.get(1, "new");
      if (self.is_markup() && !with.is_markup()) with = b->made(escaped(text_of(with, "the new text"), *budget));
      Arguments x{{self, a.get(0, "old"), with, a.get(2, "count", None{})}, {}, a.budget};
      return b->filter("replace", x);
    });
  if (name == "join")
    return Function([=](Arguments& a) {
      Value parts = a.get(0, "iterable");
      if (self.is_markup()) {
        List safe;
        const Value all = items(parts, *budget);
        for (const Value& x : all.list()) safe.push_back(x.is_markup() ? x : b->made(escaped(str(x, *budget), *budget)));
        budget->list(safe.size());
        parts = Value(std::move(safe));
      }
      Arguments x{{parts, self}, {}, a.budget};
      const Value joined = b->filter("join", x);
      return self.is_markup() ? Value::markup(joined.string()) : joined;
    });
  if (name == "format") return Function([=](Arguments& a) { return b->brace_format(self, a); });
  if (name == "format_map")
    return Function([=](Arguments& a) {
      const Value map = a.get(0, "map");
      if (!map.is_dict()) raise("format_map needs a mapping");
      Arguments x{{}, {}, a.budget};
      budget->list(2 * map.dict().size());
      for (const auto& [k, v] : map.dict())
        if (k.is_string()) x.named.emplace_back(k.string(), v);
      return b->brace_format(self, x);
    });
  return std::nullopt;
}

// Methods that fill a string up to a width.
std::optional<Function> pad_method(Builtins* b, Budget* budget, const Value& self, std::string_view name) {
  if (name == "expandtabs")
    return Function([=](Arguments& a) {
      const Value size = a.get(0, "tabsize", Value(int64_t{8}));
      if (!size.is_number() || size.is_float()) raise("the size of a tab must be a whole number");
      if (size.integer() > kWidestText) raise("a tab of at most {}", kWidestText);
      return b->made(without_tabs(self.string(), size.integer(), *budget));
    });
  if (name == "zfill" || name == "ljust" || name == "rjust" || name == "center") {
    const char how = name[0];
    return Function([=](Arguments& a) {
      const Value w = a.get(0, "width"), fill = a.get(1, "fillchar", Value(how == 'z' ? "0" : " "));
      if (!w.is_number() || w.is_float()) raise("the width must be a whole number");
      if (w.integer() > kWidestText) raise("a width of at most {}", kWidestText);
      if (!fill.is_string() || length(fill, *budget) != 1) raise("the fill character must be exactly one character long");
      const int64_t missing = w.integer() - length(self, *budget);
      const std::string& s = self.string();
      if (missing <= 0) return self;
      budget->bytes(static_cast<size_t>(missing) * fill.string().size());
      const int64_t left = how == 'l' ? 0 : how == 'c' ? missing / 2 + (missing & w.integer() & 1) : missing;
      const size_t sign = how == 'z' && (s.starts_with('-') || s.starts_with('+')) ? 1 : 0;
      std::string out = s.substr(0, sign);
      for (int64_t i = 0; i < left; ++i) out += fill.string();
      out += s.substr(sign);
      for (int64_t i = left; i < missing; ++i) out += fill.string();
      return b->made(std::move(out));
    });
  }
  return std::nullopt;
}

// Methods that test the classes of characters.
std::optional<Function> class_method(Builtins* /*b*/, Budget* budget, const Value& self, std::string_view name) {
  auto all = [&](bool (*f)(char32_t)) {
    return Function([=](Arguments&) { return Value(all_chars(self.string(), f, *budget)); });
  };
  if (name == "isascii")
    return Function([=](Arguments&) {
      budget->chars(self.string().size());
      return Value(
          std::none_of(self.string().begin(), self.string().end(), [](char c) { return static_cast<signed char>(c) < 0; }));
    });
  if (name == "isdecimal" || name == "isdigit") return all([](char32_t c) { return c >= '0' && c <= '9'; });
  if (name == "isspace") return all(is_unicode_space);
  auto classes = [&](uint8_t of) {
    return Function([=, table = char_table()](Arguments&) {
      return Value(all_chars(
          self.string(), [&](char32_t c) { return (table->of(c) & of) != 0; }, *budget));
    });
  };
  if (name == "isalpha") return classes(kLetter);
  if (name == "isalnum") return classes(kLetter | kNumber);
  if (name == "isupper")
    return Function([=](Arguments&) {
      return Value(upper_case(self.string(), *budget) == self.string() && lower_case(self.string(), *budget) != self.string());
    });
  if (name == "islower")
    return Function([=](Arguments&) {
      return Value(lower_case(self.string(), *budget) == self.string() && upper_case(self.string(), *budget) != self.string());
    });
  return std::nullopt;
}

}  // namespace

// Returns a method of a string. A method of Markup returns Markup if the method of a string returns a string.
Value Builtins::text_method(const Value& of, std::string_view name) {
  std::optional<Function> f;
  for (auto* family : {case_method, cut_method, search_method, compose_method, pad_method, class_method})
    if (!f) f = family(this, &budget_, of, name);
  if (!f) return Undefined(name);
  if (!of.is_markup() || name == "format" || name == "join") return Value(std::move(*f), of);
  return Value(Function([f = std::move(*f)](Arguments& a) {
                 const Value r = f(a);
                 if (r.is_string()) return Value::markup(r.string());
                 if (!r.is_list()) return r;
                 List parts;
                 for (const Value& x : r.list()) parts.push_back(Value::markup(x.string()));
                 return Value(std::move(parts), r.is_tuple());
               }),
               of);
}

Value Builtins::method(const Value& of, std::string_view name) {
  if (of.is_string()) return text_method(of, name);
  Budget* budget = &budget_;
  // The functions keep the value that `of` refers to: [=] copies it.
  if (of.is_dict()) {
    if (name == "items" || name == "keys" || name == "values") {
      char kind = name[0];
      auto list = [=](Arguments&) {
        List l;
        budget->list(of.dict().size() * (kind == 'i' ? 5 : 1));
        l.reserve(of.dict().size());
        for (const auto& [k, v] : of.dict()) l.push_back(kind == 'k' ? k : kind == 'v' ? v : Value(List{k, v}, true));
        return Value(std::move(l));
      };
      return Value(Function(list), of);
    }
    if (name == "get") {
      auto get = [=](Arguments& a) {
        const Value* v = lookup(of.dict(), a.get(0, "key"), *budget);
        return v ? *v : a.get(1, "default", None{});
      };
      return Value(Function(get), of);
    }
    if (name == "copy") return Value(Function([=](Arguments&) { return of; }), of);
    for (std::string_view n : {"update", "pop", "setdefault", "clear", "popitem"})
      if (name == n && !lookup(of.dict(), name, budget_)) raise("{} would change a dict, which a template may not", name);
  }
  if (of.is_group() && (name == "grouper" || name == "list")) return of.list()[name == "list"];
  if (of.is_list()) {
    if (name == "index" || name == "count") {
      bool index = name == "index";
      auto find = [=](Arguments& a) {
        int64_t n = 0, i = 0;
        Value what = a.get(0, "value");
        for (const Value& v : of.list()) {
          if (equal(v, what, *budget)) {
            if (index) return Value(i);
            ++n;
          }
          ++i;
        }
        if (index) raise("value is not in list");
        return Value(n);
      };
      return Value(Function(find), of);
    }
    for (std::string_view n : {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"})
      if (name == n) raise("{} would change a list, which a template may not", name);
  }
  return Undefined(name);
}

}  // namespace ravine::jinja
