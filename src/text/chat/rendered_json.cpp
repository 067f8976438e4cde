#include "text/chat/rendered_json.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace ravine {

namespace {

// True if the text has a number of 19 digits or more; numbers of 2^63 and above have at least 19 digits.
bool has_long_number(std::string_view text) {
  size_t digits = 0;
  return std::any_of(text.begin(), text.end(), [&](char c) { return (digits = c >= '0' && c <= '9' ? digits + 1 : 0) >= 19; });
}

class NumberFinder final : public nlohmann::json_sax<Json> {
 public:
  explicit NumberFinder(Rendered rendered) : rendered_(rendered) {}
  std::string found;

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t v) override { return number(v > static_cast<uint64_t>(INT64_MAX)); }
  bool number_float(number_float_t, const string_t& digits) override {
    return number(digits.find_first_of(".eE") == std::string::npos);
  }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(false); }
  bool start_array(size_t) override { return open(true); }
  bool key(string_t& v) override {
    path_.back().key = v;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  struct Level {
    bool list = false;
    size_t index = 0;
    std::string key;
  };
  bool open(bool list) {
    path_.push_back({list, 0, ""});
    return path_.size() <= kJsonDepth;
  }
  bool close() {
    path_.pop_back();
    return value();
  }
  bool value() {
    if (!path_.empty()) ++path_.back().index;
    return true;
  }
  bool number(bool beyond) {
    if (!beyond || !is_rendered()) return value();
    for (const Level& p : path_)
      found += p.list ? fmt::format("[{}]", p.index) : fmt::format("{}{}", found.empty() ? "" : ".", p.key);
    return false;
  }
  bool is_rendered() const {
    static constexpr std::string_view kMembers[] = {"messages", "conversations", "tools",   "documents",
                                                    "prompt",   "chosen",        "rejected"};
    return rendered_ == Rendered::all ||
           (path_.size() > 1 && std::find(std::begin(kMembers), std::end(kMembers), path_[0].key) != std::end(kMembers));
  }

  Rendered rendered_;
  std::vector<Level> path_;  // the containers around the value, and its position in each
};

}  // namespace

std::string member_beyond_64_bits(std::string_view text, Rendered rendered) {
  if (!has_long_number(text)) return "";
  NumberFinder finder(rendered);
  Json::sax_parse(text.begin(), text.end(), &finder);
  return finder.found;
}

Json parse_rendered(std::string_view text, const std::string& where, Rendered rendered) {
  Json json = parse_json(text, where);
  if (const std::string member = member_beyond_64_bits(text, rendered); !member.empty())
    throw UserError("a whole number beyond 64 bits", fmt::format("{}: {}", where, member),
                    "a chat template would write it with other digits", "write it as a text, in quotes");
  return json;
}

}  // namespace ravine
