#include "dialects/shell_value.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>

namespace ravine {

void ShellVariables::set(const std::string& name, ShellValue value) { values_[name] = std::move(value); }

void ShellVariables::set_item(const std::string& name, int64_t index, const ShellValue& value, bool append) {
  ShellValue& had = values_[name];
  if (had.gone) had = {};
  if (!had.array && had.items.size() == 1 && had.items[0].empty()) had.items.clear();
  had.array = true;
  if (!had.problem) had.problem = value.problem;
  if (index < 0) index += static_cast<int64_t>(had.items.size());
  if (index < 0 || index > static_cast<int64_t>(had.items.size())) {
    had.problem = {fmt::format("{}[{}] leaves a gap in the array, which is not followed", name, index), value.problem.line};
    return;
  }
  const auto at = static_cast<size_t>(index);
  if (had.items.size() <= at) had.items.resize(at + 1);
  had.items[at] = (append ? had.items[at] : "") + (value.items.empty() ? "" : value.items[0]);
}

void ShellVariables::append(const std::string& name, const ShellValue& value) {
  if (!values_.contains(name))
    if (const char* outside = std::getenv(name.c_str())) values_[name] = {.items = {outside}};
  ShellValue& had = values_[name];
  if (had.gone) had = {};
  if (!had.problem) had.problem = value.problem;
  size_t bytes = 0;
  for (const std::string& item : had.items) bytes += item.size() + 1;
  if (bytes > kLongestShellWord) {
    had.problem = {"the text becomes too long", value.problem.line};
  } else if (value.array) {
    if (!had.array && had.items.size() == 1 && had.items[0].empty()) had.items.clear();
    had.array = true;
    had.items.insert(had.items.end(), value.items.begin(), value.items.end());
  } else {
    if (had.items.empty()) had.items.emplace_back();
    had.items[0] += value.items.empty() ? "" : value.items[0];
  }
}

void ShellVariables::unset(const std::string& name) {
  const size_t open = name.find('[');
  if (open == std::string::npos) {
    values_[name] = {.problem = {}, .gone = true};
    return;
  }
  const auto had = values_.find(name.substr(0, open));
  const std::string index = name.substr(open + 1, name.size() - open - 2);
  if (had == values_.end()) return;
  had->second.names.erase(index);
  size_t at = 0;
  const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), at);
  if (error == std::errc() && end == index.data() + index.size() && at < had->second.items.size())
    had->second.items.erase(had->second.items.begin() + static_cast<std::ptrdiff_t>(at));
}

std::optional<ShellValue> ShellVariables::own(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

size_t ShellVariables::bytes() const {
  size_t sum = 0;
  for (const auto& [name, value] : values_) {
    sum += name.size() + 64;
    for (const std::string& item : value.items) sum += item.size() + 32;
  }
  return sum;
}

void ShellVariables::restore(const std::string& name, std::optional<ShellValue> value) {
  if (value)
    values_[name] = std::move(*value);
  else
    values_.erase(name);
}

bool ShellVariables::is_set(const std::string& name) const {
  if (const auto it = values_.find(name); it != values_.end()) return !it->second.gone;
  return std::getenv(name.c_str()) != nullptr;
}

ShellValue ShellVariables::get(const std::string& name, int line) const {
  if (const auto it = values_.find(name); it != values_.end() && !it->second.gone) return it->second;
  if (const char* value = std::getenv(name.c_str()); value && is_set(name)) return {.items = {value}};
  if (unset_is_empty || assigned.contains(name)) return {};
  return {.problem = {fmt::format("{} is set neither in the script nor in the environment", name), line}};
}

}  // namespace ravine
