// Parses the arguments of load_dataset and its notation of splits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "base/error.h"
#include "base/json.h"
#include "base/read_text.h"
#include "base/text.h"
#include "data/hf_dataset.h"

namespace ravine {

namespace {

// Arguments that change caches, speed or checks, but not the rows.
constexpr const char* kWithoutMeaning[] = {"streaming",       "cache_dir",         "num_proc",        "keep_in_memory",
                                           "download_mode",   "verification_mode", "save_infos",      "ignore_verifications",
                                           "download_config", "trust_remote_code", "storage_options", "token",
                                           "use_auth_token"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Repairs `"key: VALUE` to `"key": VALUE`, and True, False, None outside of strings to true, false, null.
std::string with_slips_mended(const std::string& text) {
  std::string out;
  bool quoted = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' && !quoted) {
      size_t end = at + 1;
      while (end < text.size() && is_letter(text[end])) ++end;
      if (end > at + 1 && end < text.size() && text[end] == ':') {  // the closing quote is missing
        out += text.substr(at, end - at) + "\"";
        at = end;
        continue;
      }
    }
    if (c == '\\' && quoted && at + 1 < text.size()) out += text[at++];
    if (c == '"') quoted = !quoted;
    if (!quoted && c != '"' && is_letter(c) && (at == 0 || !is_letter(text[at - 1]))) {
      size_t end = at;
      while (end < text.size() && is_letter(text[end])) ++end;
      const std::string word = text.substr(at, end - at);
      out += word == "True" ? "true" : word == "False" ? "false" : word == "None" ? "null" : word;
      at = end;
      continue;
    }
    out += text[at++];
  }
  return out;
}

Json parse_request(const std::string& text, const std::string& where, std::vector<std::string>* notices) {
  try {
    return parse_json(text, where);
  } catch (const UserError&) {
    // Common slips of Python users; for example, `"streaming: True,` is printed on a page that many copy.
    const std::string out = with_slips_mended(text);
    if (out == text) throw;
    Json read;
    try {
      read = parse_json(out, where);
    } catch (const UserError&) {
      read = nullptr;
    }
    if (!read.is_object()) throw;
    notices->push_back(
        fmt::format("{} is not valid JSON: a key without its closing quote, or True, False, None; it is read as {}", where,
                    read.dump().substr(0, 400)));
    return read;
  }
}

std::vector<std::string> patterns_of(const Json& value, const std::string& where) {
  std::vector<std::string> out;
  for (const Json& p : value.is_array() ? value : Json::array({value})) {
    if (!p.is_string())
      throw UserError("data_files is no list of names", where, "each is a text",
                      "write \"data_files\": [\"a.json\", \"b.json\"]");
    out.push_back(p.get<std::string>());
  }
  return out;
}

// Parses a text, a list of texts, {split: text or list}, or the [{split, path}] of a card.
std::vector<std::pair<std::string, std::vector<std::string>>> data_files_of(const Json& value, const std::string& where) {
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  if (value.is_object()) {
    for (const auto& [split, files] : value.items()) out.emplace_back(split, patterns_of(files, where));
  } else if (value.is_array() && !value.empty() && value[0].is_object()) {
    for (const Json& entry : value) {
      if (!entry.is_object() || !entry.contains("path"))
        throw UserError("an element of data_files has no path", where,
                        "each is an object with path, and split if it is not train",
                        "write [{\"split\": \"train\", \"path\": \"train.json\"}]");
      out.emplace_back(field_or<std::string>(entry, "split", where, "train"), patterns_of(entry["path"], where));
    }
  } else {
    out.emplace_back("train", patterns_of(value, where));
  }
  return out;
}

int64_t percent_of(int64_t part, int64_t count, bool whole) {
  if (whole) return part * (count / 100);
  const double exact = static_cast<double>(part) * static_cast<double>(count) / 100;
  return static_cast<int64_t>(std::nearbyint(exact));  // halves round to even, as in Python
}

}  // namespace

std::vector<std::pair<std::string, std::vector<std::string>>> hf_data_files(const Json& value, const std::string& where) {
  return data_files_of(value, where);
}

HfDatasetRequest read_hf_request(const std::string& text_or_file, const std::string& where, std::vector<std::string>* notices) {
  const size_t begin = text_or_file.find_first_not_of(" \t\r\n");
  const bool text = begin != std::string::npos && text_or_file[begin] == '{';
  const std::string where_in = text ? where : text_or_file;
  const Json params = parse_request(
      text ? text_or_file : read_text(text_or_file, int64_t{1} << 20, "arguments of load_dataset"), where_in, notices);
  if (!params.is_object())
    throw UserError("no arguments of load_dataset", where_in, "they are an object with a path", "write {\"path\": \"FOLDER\"}");
  HfDatasetRequest r;
  for (const auto& [key, value] : params.items()) {
    if (value.is_null()) continue;
    const auto take = [&, k = key](std::string& into) { into = field<std::string>(params, k, where_in); };
    if (key == "path")
      take(r.path);
    else if (key == "name")
      take(r.name);
    else if (key == "data_dir")
      take(r.data_dir);
    else if (key == "field")
      take(r.field);
    else if (key == "split")
      take(r.split);
    else if (key == "data_files")
      r.data_files = data_files_of(value, where_in);
    else if (std::none_of(std::begin(kWithoutMeaning), std::end(kWithoutMeaning), [&](const char* k) { return key == k; }))
      throw UserError(fmt::format("'{}' is not known", key.substr(0, 80)), where_in,
                      "path, name, data_dir, data_files, split and field of load_dataset say what is read here",
                      "leave it out, and bring the files into the form that it asks for");
  }
  if (r.path.empty()) throw UserError("no path", where_in, "it names the folder of the data set", "add \"path\": \"FOLDER\"");
  return r;
}

std::vector<SplitSlice> parse_split(const std::string& words, const std::string& where) {
  static const std::regex form(R"re(\s*([\w.]+)\s*(\[(?:(-?[0-9_]+)(%)?)?:(?:(-?[0-9_]+)(%)?)?\])?(?:\((\w*)\))?\s*)re");
  std::vector<SplitSlice> out;
  for (const std::string& part : split(words, '+')) {
    std::smatch m;
    if (part.size() > 200 || !std::regex_match(part, m, form))
      throw UserError(fmt::format("split is '{}'", words), where, "a split is a name, a slice of one, or several with +",
                      "write train, train[:10%], train[100:200] or train+test");
    const auto number = [&](const std::ssub_match& n) -> std::optional<int64_t> {
      std::string digits = n.str();
      digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
      if (digits.empty() || digits == "-") return std::nullopt;
      if (digits.size() > 16)
        throw UserError(fmt::format("split is '{}'", words), where, "a row has at most 16 digits", "correct it");
      return std::stoll(digits);
    };
    SplitSlice s{.split = m[1].str(), .from = number(m[3]), .to = number(m[5]), .percent = m[4].matched || m[6].matched};
    const std::string rounding = m[7].str();
    if (!rounding.empty() && rounding != "closest" && rounding != "pct1_dropremainder")
      throw UserError(fmt::format("split is '{}'", words), where, "rounding is closest or pct1_dropremainder", "correct it");
    s.whole_percents = rounding == "pct1_dropremainder";
    if (s.percent &&
        (s.from.value_or(0) > 100 || s.from.value_or(0) < -100 || s.to.value_or(0) > 100 || s.to.value_or(0) < -100))
      throw UserError(fmt::format("split is '{}'", words), where, "percents are between -100 and 100", "correct it");
    out.push_back(std::move(s));
  }
  return out;
}

bool SplitSlice::counts() const { return percent || from.value_or(0) < 0 || to.value_or(0) < 0; }

std::pair<int64_t, int64_t> SplitSlice::rows(int64_t count) const {
  const auto python_index = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    int64_t row = percent ? percent_of(*at, count, whole_percents) : *at;
    if (row < 0) row = std::max<int64_t>(count + row, 0);
    return std::min(row, count);
  };
  const int64_t first = python_index(from, 0);
  return {first, std::max(first, python_index(to, count))};
}

}  // namespace ravine
