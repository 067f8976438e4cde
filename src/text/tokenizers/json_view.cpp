#include "text/tokenizers/json_view.h"

#include <algorithm>

#include "base/error.h"
#include "text/last_field.h"

namespace ravine {

void JsonView::wrong(const std::string& rule) const {
  throw UserError("wrong tokenizer file", where(), rule, "correct or replace the file");
}

std::string_view JsonView::string() const {
  std::string_view s;
  if (value_.get_string().get(s)) wrong("it must be a string");
  return s;
}

bool JsonView::boolean() const {
  bool b = false;
  if (value_.get_bool().get(b)) wrong("it must be true or false");
  return b;
}

int64_t JsonView::integer(int64_t low, int64_t high) const {
  int64_t i = 0;
  if (value_.get_int64().get(i) || i < low || i > high) wrong(fmt::format("it must be an integer from {} to {}", low, high));
  return i;
}

double JsonView::number() const {
  double d = 0;
  if (value_.get_double().get(d)) wrong("it must be a number");
  return d;
}

simdjson::dom::object JsonView::object() const {
  simdjson::dom::object o;
  if (value_.get_object().get(o)) wrong("it must be an object");
  return o;
}

simdjson::dom::array JsonView::array() const {
  simdjson::dom::array a;
  if (value_.get_array().get(a)) wrong("it must be a list");
  return a;
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  simdjson::dom::element e;
  if (!last_field(object(), key, e) || e.is_null()) return std::nullopt;
  return child(e, key);
}

JsonView JsonView::at(std::string_view key) const {
  auto v = find(key);
  if (!v) wrong(fmt::format("it must have the field '{}'", key));
  return *v;
}

bool JsonView::flag(std::string_view key, bool fallback) const {
  auto v = find(key);
  return v ? v->boolean() : fallback;
}

std::string JsonView::text(std::string_view key, std::string_view fallback) const {
  auto v = find(key);
  return std::string(v ? v->string() : fallback);
}

void JsonView::only(std::initializer_list<std::string_view> keys) const {
  for (auto [key, value] : object())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      child(value, key).wrong(fmt::format("this field is not known here; known are {}", fmt::join(keys, ", ")));
}

}  // namespace ravine
