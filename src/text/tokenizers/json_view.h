// A value of a parsed JSON file with its path, so that errors name file and key. only() declares the known fields of an
// object; other fields are refused.
#pragma once
#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace ravine {

// The largest number of normalizers of a tokenizer, and of its pre-tokenizers and its decoders: each reads the whole
// text.
inline constexpr size_t kMostParts = 64;
inline constexpr int kDeepestSequence = 16;  // limit of nested Sequences in a tokenizer.json

class JsonView {
 public:
  JsonView(simdjson::dom::element value, const std::string& file, std::string path = "")
      : value_(value), file_(&file), path_(std::move(path)) {}

  bool is_null() const { return value_.is_null(); }
  bool is_object() const { return value_.is_object(); }
  bool is_array() const { return value_.is_array(); }
  bool is_string() const { return value_.is_string(); }
  std::string where() const { return path_.empty() ? *file_ : *file_ + ": " + path_; }
  [[noreturn]] void wrong(const std::string& rule) const;

  std::string_view string() const;
  bool boolean() const;
  int64_t integer(int64_t low, int64_t high) const;
  double number() const;
  simdjson::dom::object object() const;
  simdjson::dom::array array() const;

  // Returns a field of an object; nothing if it is missing or null.
  std::optional<JsonView> find(std::string_view key) const;
  JsonView at(std::string_view key) const;  // a missing field is a UserError
  bool flag(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  void only(std::initializer_list<std::string_view> keys) const;  // any other key is a UserError

  template <class F>
  void each(F&& f) const {  // calls f(element) for each element of an array
    size_t i = 0;
    for (auto e : array()) f(JsonView(e, *file_, path_ + "[" + std::to_string(i++) + "]"));
  }
  JsonView child(simdjson::dom::element e, std::string_view key) const {
    return JsonView(e, *file_, path_.empty() ? std::string(key) : path_ + "." + std::string(key));
  }

 private:
  simdjson::dom::element value_;
  const std::string* file_;
  std::string path_;
};

}  // namespace ravine
