#include "config/likely_number.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <variant>

#include "base/text.h"

namespace ravine {

std::string number_text(double x) {
  return x == std::floor(x) && std::abs(x) <= 1e15 ? fmt::format("{:.0f}", x) : fmt::format("{}", x);
}

std::string in_small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

std::vector<std::string> numbers_in(std::string text) {
  for (char& c : text)
    if (std::string_view("()[]{},;\t").find(c) != std::string_view::npos) c = ' ';
  std::vector<std::string> found;
  for (const std::string& part : split(text, ' ')) {
    if (part.empty()) continue;
    const YamlNode::Kind kind = resolve_scalar(part).kind;
    if (kind != YamlNode::Kind::integer && kind != YamlNode::Kind::real) return {};
    found.push_back(part);
  }
  return found.size() > 1 ? found : std::vector<std::string>();
}

std::string plain_number(const Option& option, const std::string& given) {
  std::string text = in_small_letters(given);
  std::erase(text, ' ');
  const size_t digits = std::min(text.find_first_not_of("0123456789.,"), text.size());
  std::string number = text.substr(0, digits), unit = text.substr(digits);
  if (number.ends_with(',')) number.pop_back();
  for (const char* power : {"**", "^"})
    if (unit.starts_with(power)) {
      const YamlNode base = resolve_scalar(number), exponent = resolve_scalar(unit.substr(std::string_view(power).size()));
      if (base.kind != YamlNode::Kind::integer || exponent.kind != YamlNode::Kind::integer) return "";
      const double x = std::pow(static_cast<double>(base.integer), static_cast<double>(exponent.integer));
      return std::isfinite(x) ? number_text(x) : "";
    }
  if (const size_t comma = number.find(','); comma != std::string::npos) {
    const std::vector<std::string> groups = split(number, ',');
    const bool thousands = number[0] != '0' && number.find('.') == std::string::npos && comma > 0 && comma <= 3 &&
                           std::all_of(groups.begin() + 1, groups.end(), [](const std::string& g) { return g.size() == 3; });
    if (thousands)
      std::erase(number, ',');
    else if (number.find(',', comma + 1) == std::string::npos)
      number[comma] = '.';
  }
  const YamlNode value = resolve_scalar(number);
  if (value.kind != YamlNode::Kind::integer && value.kind != YamlNode::Kind::real) return "";
  if (unit.empty()) return number;
  if (unit == "%") return number_text(value.real / 100);
  const bool seconds = option.help.find("seconds") != std::string::npos;
  if (seconds) {
    const double factor = unit == "s" || unit == "sec" ? 1 : unit == "m" || unit == "min" ? 60 : unit == "h" ? 3600 : 0;
    return factor > 0 ? number_text(value.real * factor) : "";
  }
  const size_t power = std::string_view("kmgt").find(unit[0]);
  const std::string rest = unit.substr(1);
  if (unit == "b" && !option.help.empty() && option.help.find("byte") != std::string::npos) return number;
  if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib" && rest != "i")) return "";
  const bool mega = option.help.find(" MB") != std::string::npos || option.help.find("MiB") != std::string::npos,
             giga = option.help.find("GB") != std::string::npos || option.help.find("GiB") != std::string::npos;
  if (mega || giga) {
    const double base = rest.starts_with('i') ? 1024 : 1000,
                 x = value.real * std::pow(base, static_cast<double>(power) - (giga ? 2 : 1));
    return x == std::floor(x) || std::holds_alternative<double*>(option.target) ||
                   std::holds_alternative<std::vector<double>*>(option.target)
               ? number_text(x)
               : "";
  }
  const double x = value.real * std::pow(1000.0, static_cast<double>(power + 1)),
               binary = value.real * std::pow(1024.0, static_cast<double>(power + 1));
  return rest.starts_with('i') ? number_text(binary) : number_text(x) + " or " + number_text(binary);
}

std::string likely_range(const Option& option, const std::string& given) {
  const size_t dash = given.find('-');
  constexpr std::string_view kDigits = "0123456789";
  if (!std::holds_alternative<std::vector<int64_t>*>(option.target) || dash == std::string::npos || dash == 0 || dash > 4 ||
      given.size() == dash + 1 || given.size() > dash + 5 || given.find_first_not_of(kDigits) != dash ||
      given.find_first_not_of(kDigits, dash + 1) != std::string::npos)
    return "";
  const int first = std::stoi(given.substr(0, dash)), last = std::stoi(given.substr(dash + 1));
  if (last < first || last - first >= 64) return "";
  std::vector<int> all;
  for (int i = first; i <= last; ++i) all.push_back(i);
  return fmt::format("[{}]", fmt::join(all, ", "));
}

}  // namespace ravine
