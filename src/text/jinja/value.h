// Values of the template language, as in Python.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace ravine::jinja {

// An error of a template, when it is read or rendered, or the text of raise_exception.
struct TemplateError : Error {
  using Error::Error;
};
// The error of a template that needs more work, memory or depth than the limit.
struct TemplateLimit : TemplateError {
  using TemplateError::TemplateError;
};

template <class... A>
[[noreturn]] void raise(fmt::format_string<A...> text, A&&... args) {
  throw TemplateError(fmt::format(text, std::forward<A>(args)...));
}
template <class... A>
[[noreturn]] void beyond(fmt::format_string<A...> text, A&&... args) {
  throw TemplateLimit(fmt::format(text, std::forward<A>(args)...));
}

// Returns a piece of a template's text as it is shown in an error message: shortened if it is long.
std::string shown(std::string_view text);

class Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<Value, Value>>;  // in order of insertion
struct Namespace;                                   // owned by the rendering
struct Arguments;
using Function = std::function<Value(Arguments&)>;

struct Undefined {
  explicit Undefined(std::string_view of = {}) : name(shown(of)) {}
  std::string name;
};
struct None {};

// The part of an open list (OpenList) that a rendering has used. length: the length of the list in this rendering.
// least: the smallest length of the list for which the rendered text so far would be the same; SIZE_MAX: only for
// `length`.
struct Reach {
  size_t length = 0, least = 0;
  void upto(size_t n) { least = std::max(least, n); }
  void whole() { least = SIZE_MAX; }
};

// A list whose end is still open: the elements of `all` from `offset` to `reach->length`. It records in `reach` how far
// a rendering has read it. A call of list() counts as a read of the end.
struct OpenList {
  std::shared_ptr<const List> all;
  size_t offset = 0;
  Reach* reach = nullptr;
  OpenList(std::shared_ptr<const List> of, size_t from, Reach* seen);
  size_t size() const { return reach->length > offset ? reach->length - offset : 0; }
  const Value& at(size_t i) const;  // returns element i; counts as a read of this element, not of the end
  const List& list() const;

 private:
  mutable List part_;
  mutable size_t part_length_ = SIZE_MAX;
};

// A value of a template. Lists, dicts and bound methods are nested at most kDeepestValue levels deep, so that walks and
// destructors may recurse.
class Value {
 public:
  static constexpr int kDeepestValue = 64;

  Value() : v_(Undefined{}) {}
  Value(Undefined u) : v_(std::move(u)) {}
  Value(None) : v_(None{}) {}
  Value(bool b) : v_(b) {}
  Value(int64_t i) : v_(i) {}
  Value(double d) : v_(d) {}
  Value(std::string s) : v_(std::make_shared<const std::string>(std::move(s))) {}
  Value(std::string_view s) : Value(std::string(s)) {}
  Value(const char* s) : Value(std::string(s)) {}
  Value(List l, bool tuple = false);
  Value(Dict d);
  Value(Namespace* n) : v_(n) {}
  Value(Function f) : v_(std::make_shared<const Function>(std::move(f))) {}
  Value(Function f, const Value& of);  // a method, which holds `of`
  Value(std::shared_ptr<const OpenList> l, int depth) : v_(std::move(l)), depth_(static_cast<uint8_t>(depth)) {}
  static Value markup(std::string s) { return Value(std::move(s)).as(Form::markup); }
  static Value group(Value key, List list) { return Value(List{std::move(key), Value(std::move(list))}, true).as(Form::group); }

  static Value range(List list) { return Value(std::move(list)).as(Form::range); }

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(v_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_bool() const { return is<bool>(); }
  bool is_int() const { return is<int64_t>(); }
  bool is_float() const { return is<double>(); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_string() const { return is<std::shared_ptr<const std::string>>(); }
  // True for a string that is safe as HTML (Jinja's Markup). Texts that are joined to it are escaped.
  bool is_markup() const { return form_ == Form::markup; }
  bool is_group() const { return form_ == Form::group; }  // a tuple of groupby with the attributes grouper and list
  bool is_range() const { return form_ == Form::range; }  // a list of range(..), which is not written like a list
  bool is_list() const { return is<std::shared_ptr<const List>>() || is_open(); }
  bool is_open() const { return is<std::shared_ptr<const OpenList>>(); }
  bool is_tuple() const { return is_list() && tuple_; }
  bool is_dict() const { return is<std::shared_ptr<const Dict>>(); }
  bool is_namespace() const { return is<Namespace*>(); }
  bool is_function() const { return is<std::shared_ptr<const Function>>(); }

  bool boolean() const { return held<bool>(); }
  int64_t integer() const { return is_bool() ? boolean() : held<int64_t>(); }  // of a bool or an int
  double number() const { return is_float() ? held<double>() : static_cast<double>(integer()); }
  const std::string& string() const { return *held<std::shared_ptr<const std::string>>(); }
  const List& list() const { return is_open() ? open().list() : *held<std::shared_ptr<const List>>(); }
  const OpenList& open() const { return *held<std::shared_ptr<const OpenList>>(); }
  const Dict& dict() const { return *held<std::shared_ptr<const Dict>>(); }
  Namespace* space() const { return held<Namespace*>(); }
  const Function& function() const { return *held<std::shared_ptr<const Function>>(); }
  const std::string& undefined_name() const { return held<Undefined>().name; }
  int depth() const { return depth_; }         // number of levels of nested lists and dicts; 0 for a number
  bool same_object(const Value& other) const;  // lists, dicts: true if both are the same object, as Python's `is`

 private:
  // Returns the value as a T. A value of another type is a TemplateError.
  template <class T>
  const T& held() const {
    if (const T* v = std::get_if<T>(&v_)) return *v;
    raise("a value is used as what it is not");
  }
  void hold(int depth);
  enum class Form : uint8_t { plain, markup, group, range };
  Value as(Form form) && {
    form_ = form;
    return std::move(*this);
  }
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, Namespace*, std::shared_ptr<const Function>, std::shared_ptr<const OpenList>>
      v_;
  bool tuple_ = false;
  Form form_ = Form::plain;
  uint8_t depth_ = 0;
};

// Defined here, where Value is complete: clang instantiates the destructor of the list with it.
inline OpenList::OpenList(std::shared_ptr<const List> of, size_t from, Reach* seen)
    : all(std::move(of)), offset(from), reach(seen) {}

// The state of a {% for %} loop during a rendering, behind the variable `loop`.
struct Loop {
  Value over;  // the list of the elements
  size_t index = 0;
  int64_t depth = 1;
  Value last;           // the arguments of the last call of loop.changed
  bool called = false;  // true if loop.changed was called
  // The value of loop(..) in a recursive loop: the function that runs this loop over another list.
  Value again;
};

// The state of an object that the template function cycler() has made.
struct Cycler {
  Value items;  // the values that next() returns in turn: a tuple that is not empty
  size_t at = 0;
};

// An object with changeable fields: of namespace(), of a loop, or of a cycler.
struct Namespace {
  std::vector<std::pair<std::string, Value>> fields;
  std::optional<Loop> loop;      // set for a loop, which has no fields
  std::optional<Cycler> cycler;  // set for a cycler, which has no fields
  size_t number = 0;             // in order of creation
  Value* find(std::string_view name) {
    for (auto& [k, v] : fields)
      if (k == name) return &v;
    return nullptr;
  }
};

// The limits of a rendering: work, memory and depth. Work is counted by the data that an operation reads; a unit is
// about 10 ns of a CPU.
class Budget {
 public:
  static constexpr int64_t kWork = 40'000'000;
  static constexpr size_t kBytes = size_t{128} << 20;  // bytes of all values that are created, freed ones included
  static constexpr size_t kLongestText = size_t{64} << 20;
  static constexpr int kLevels = 600;       // nested calls of the tree walker
  static constexpr size_t kTextBytes = 64;  // bytes that are counted for a string in addition to its characters

  explicit Budget(int64_t work = kWork, size_t bytes = kBytes) : work_(work), bytes_(bytes), most_(work) {}

  void work(int64_t n) {
    if ((work_ -= n) < 0) beyond("the template takes too many steps (more than {} units of work)", most_);
  }
  void work(size_t n) { work(static_cast<int64_t>(std::min<size_t>(n, INT64_MAX / 2))); }
  void step() { work(int64_t{8}); }              // counts the work of a node of the tree, or of a call
  void values(size_t n) { work(2 * n); }         // counts the work to read or copy n values
  void read(size_t bytes) { work(bytes / 64); }  // counts the work to copy, compare or search bytes
  void chars(size_t bytes) { work(bytes / 4); }  // counts the work to read bytes one by one
  void bytes(size_t n) {
    if (n > bytes_) beyond("the template takes too much memory (more than {} MiB)", kBytes >> 20);
    bytes_ -= n;
  }
  void list(size_t n) { values(n), bytes(n * sizeof(Value)); }  // counts work and memory of a new list of n values

  int64_t worked() const { return most_ - work_; }
  size_t bytes_left() const { return bytes_; }
  void bytes_left(size_t n) { bytes_ = n; }  // sets the bytes left, after Scopes::undo() has freed values

  struct Level {
    explicit Level(Budget& b) : budget(b) {
      if (b.level_ >= kLevels)
        beyond("expressions, loops and macros of the template run too deeply within each other (more than {})", kLevels);
      ++b.level_;
    }
    ~Level() { --budget.level_; }
    Level(const Level&) = delete;
    Budget& budget;
  };

 private:
  int64_t work_;
  size_t bytes_;
  int64_t most_;
  int level_ = 0;
};

struct Arguments {
  List args;
  std::vector<std::pair<std::string, Value>> named;
  Budget* budget = nullptr;

  // Returns the argument at position `at`, or with this name; `fallback` if both are missing.
  Value get(size_t at, std::string_view name, Value fallback = Value()) const;
  bool has(size_t at, std::string_view name) const;
  void at_most(std::string_view function, size_t n) const;  // throws a TemplateError if there are more than n arguments
};

const char* type_name(const Value& v);
bool truth(const Value& v);
bool equal(const Value& a, const Value& b, Budget& budget);
bool less(const Value& a, const Value& b, Budget& budget);  // a < b; values that cannot be ordered: a TemplateError
bool contains(const Value& inside, const Value& what, Budget& budget);
std::string str(const Value& v, Budget& budget);  // as Python's str()
// Appends a text to `out` and counts it in the budget. More than Budget::kLongestText bytes in `out` are a
// TemplateLimit.
void append(std::string& out, std::string_view text, Budget& budget);
void append_str(std::string& out, const Value& v, Budget& budget);
void append_repr(std::string& out, const Value& v, Budget& budget, bool outermost = true);
struct JsonStyle {
  std::optional<std::string> indent;  // not set: all in one line
  std::string comma = ", ", colon = ": ";
  bool ascii = false, sort = false;
};
std::string to_json(const Value& v, const JsonStyle& style, Budget& budget);
Value from_json(const Json& j);  // nesting deeper than kDeepestValue is a TemplateError
const Value* lookup(const Dict& d, const Value& key, Budget& budget);
const Value* lookup(const Dict& d, std::string_view key, Budget& budget);
int64_t length(const Value& v, Budget& budget);  // in characters for a string
// Returns the elements that a loop over a value visits, as a list: the keys of a dict, the characters of a string. A
// list is returned unchanged.
Value items(const Value& v, Budget& budget);
int64_t add_checked(int64_t a, int64_t b);

// Return a position of `what` in `text`: find_in the first one at or after `from`, find_last the last one at which
// `what` ends at or before `end`. npos if there is none. Both take linear time.
size_t find_in(std::string_view text, std::string_view what, size_t from, Budget& budget);
size_t find_last(std::string_view text, std::string_view what, size_t end, Budget& budget);

std::string escaped(std::string_view s, Budget& budget);  // the text with the special characters of HTML escaped
std::u32string chars(std::string_view s);                 // the code points of UTF-8 text
std::string utf8(std::u32string_view s);
int64_t count_chars(std::string_view s, Budget& budget);

}  // namespace ravine::jinja
