// Closed choices of options. Each is an enum with one table of the names of its values, in the order of the values:
//   enum class Recompute : uint8_t { none, cheap, full };
//   constexpr auto names_of(Recompute) { return std::to_array<ValueName<Recompute>>({{Recompute::none, "none"}, ..}); }
// A field of such a type is an option (option.h). YAML, command line, help, docs and completion use this table.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/dtype.h"

namespace ravine {

// A row of the table names_of(E): a value of the enum E and its name.
template <class E>
struct ValueName {
  E value;
  const char* name;
};

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  names_of(e);
};

// Types of an option with choices: a NamedEnum, or DType. The names of DType are in base/dtype.h; its options list
// their types (one_of).
template <class E>
concept ChoiceType = NamedEnum<E> || std::is_same_v<E, DType>;

// True if the table names_of(E) has value i in row i, and no name twice.
template <NamedEnum E>
constexpr bool is_table_of_names() {
  const auto table = names_of(E{});
  for (size_t i = 0; i < table.size(); ++i) {
    if (static_cast<size_t>(table[i].value) != i) return false;
    for (size_t k = 0; k < i; ++k)
      if (std::string_view(table[k].name) == table[i].name) return false;
  }
  return true;
}

template <NamedEnum E>
std::string_view name(E value) {
  static_assert(is_table_of_names<E>());
  const auto table = names_of(E{});
  const auto i = static_cast<size_t>(value);
  require(i < table.size(), "a value without a name: {}", i);
  return table[i].name;
}

template <ChoiceType E>
std::string_view name_or(const std::optional<E>& value, std::string_view none) {
  return value ? name(*value) : none;
}

// Returns the value of the enum E with this name; nothing if there is none.
template <class E>
std::optional<E> value_named(std::string_view text) {
  static_assert(is_table_of_names<E>());
  for (const ValueName<E>& row : names_of(E{}))
    if (text == row.name) return row.value;
  return std::nullopt;
}
template <>
inline std::optional<DType> value_named<DType>(std::string_view text) {
  return parse_dtype(text);
}

// Returns a list of `names`, followed by the names of all values of E.
template <ChoiceType E>
std::vector<std::string> all_names(std::vector<std::string> names = {}) {
  if constexpr (NamedEnum<E>)
    for (const ValueName<E>& row : names_of(E{})) names.emplace_back(row.name);
  else
    fail("an option that takes types of elements names them");
  return names;
}

// A reference to a field of any choice type: reads and sets the field by the name of its value.
struct AnyChoice {
  virtual ~AnyChoice() = default;
  virtual std::string text() const = 0;
  virtual void set(const std::string& text) = 0;  // `text` must be the name of a value
};

template <ChoiceType E>
class ChoiceOf : public AnyChoice {
 public:
  explicit ChoiceOf(E* field) : field_(field) {}
  std::string text() const override { return std::string(name(*field_)); }
  void set(const std::string& text) override { *field_ = value_named<E>(text).value(); }

 private:
  E* field_;
};

// An optional field; `none` is the word for no value, e.g. "auto" or "".
template <ChoiceType E>
class OptionalChoice : public AnyChoice {
 public:
  OptionalChoice(std::optional<E>* field, std::string none) : field_(field), none_(std::move(none)) {}
  std::string text() const override { return *field_ ? std::string(name(**field_)) : none_; }
  void set(const std::string& text) override {
    *field_ = text == none_ ? std::nullopt : std::optional(value_named<E>(text).value());
  }

 private:
  std::optional<E>* field_;
  std::string none_;
};

}  // namespace ravine
