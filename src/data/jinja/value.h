// Values of the template language, as Python has them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace ravine::jinja {

// What a template does wrong while it runs, or says by raise_exception.
struct TemplateError : Error {
  using Error::Error;
};

template <class... A>
[[noreturn]] void raise(fmt::format_string<A...> text, A&&... args) {
  throw TemplateError(fmt::format(text, std::forward<A>(args)...));
}

class Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<Value, Value>>;  // in order of insertion
struct Namespace;                                   // owned by the render
struct Arguments;
using Function = std::function<Value(Arguments&)>;

struct Undefined {
  std::string name;
};
struct None {};

class Value {
 public:
  Value() : v_(Undefined{}) {}
  Value(Undefined u) : v_(std::move(u)) {}
  Value(None) : v_(None{}) {}
  Value(bool b) : v_(b) {}
  Value(int64_t i) : v_(i) {}
  Value(double d) : v_(d) {}
  Value(std::string s) : v_(std::make_shared<const std::string>(std::move(s))) {}
  Value(std::string_view s) : Value(std::string(s)) {}
  Value(const char* s) : Value(std::string(s)) {}
  Value(List l, bool tuple = false) : v_(std::make_shared<const List>(std::move(l))), tuple_(tuple) {}
  Value(Dict d) : v_(std::make_shared<const Dict>(std::move(d))) {}
  Value(Namespace* n) : v_(n) {}
  Value(Function f) : v_(std::make_shared<const Function>(std::move(f))) {}

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
  bool is_list() const { return is<std::shared_ptr<const List>>(); }
  bool is_tuple() const { return is_list() && tuple_; }
  bool is_dict() const { return is<std::shared_ptr<const Dict>>(); }
  bool is_namespace() const { return is<Namespace*>(); }
  bool is_function() const { return is<std::shared_ptr<const Function>>(); }

  bool boolean() const { return held<bool>(); }
  int64_t integer() const { return is_bool() ? boolean() : held<int64_t>(); }  // of a bool or an int
  double number() const { return is_float() ? held<double>() : static_cast<double>(integer()); }
  const std::string& string() const { return *held<std::shared_ptr<const std::string>>(); }
  const List& list() const { return *held<std::shared_ptr<const List>>(); }
  const Dict& dict() const { return *held<std::shared_ptr<const Dict>>(); }
  Namespace* space() const { return held<Namespace*>(); }
  const Function& function() const { return *held<std::shared_ptr<const Function>>(); }
  const std::string& undefined_name() const { return held<Undefined>().name; }

 private:
  // A template that uses a value as what it is not ends with an error of its own.
  template <class T>
  const T& held() const {
    if (const T* v = std::get_if<T>(&v_)) return *v;
    raise("a value is used as what it is not");
  }
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, Namespace*, std::shared_ptr<const Function>>
      v_;
  bool tuple_ = false;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> fields;
  Value* find(std::string_view name) {
    for (auto& [k, v] : fields)
      if (k == name) return &v;
    return nullptr;
  }
};

// What bounds a render: work and memory.
class Budget {
 public:
  void step(int64_t n = 1) {
    if ((steps_ -= n) < 0) raise("the template takes too many steps");
  }
  void bytes(size_t n) {
    if (n > bytes_) raise("the template takes too much memory");
    bytes_ -= n;
  }

 private:
  int64_t steps_ = 5'000'000;
  size_t bytes_ = size_t{128} << 20;
};

struct Arguments {
  List args;
  std::vector<std::pair<std::string, Value>> named;
  Budget* budget = nullptr;

  // The argument at a place or of a name; `fallback` if it is not given.
  Value get(size_t at, std::string_view name, Value fallback = Value()) const;
  bool has(size_t at, std::string_view name) const;
  void at_most(std::string_view function, size_t n) const;  // else a TemplateError
};

const char* type_name(const Value& v);
bool truth(const Value& v);
bool equal(const Value& a, const Value& b, int depth = 0);
bool less(const Value& a, const Value& b, int depth = 0);   // a TemplateError if they cannot be compared
bool contains(const Value& inside, const Value& what, Budget& budget);
std::string str(const Value& v, Budget& budget);   // as Python's str()
std::string repr(const Value& v, Budget& budget, int depth = 0);
std::string to_json(const Value& v, int indent, bool ascii, bool sort, Budget& budget, int depth = 0);
Value from_json(const Json& j, int depth = 0);
const Value* lookup(const Dict& d, const Value& key);
int64_t length(const Value& v);                   // in characters for a string
List items(const Value& v, Budget& budget);       // what a loop over it sees
int64_t add_checked(int64_t a, int64_t b);

std::u32string chars(std::string_view s);  // code points
std::string utf8(std::u32string_view s);

}  // namespace ravine::jinja
