#include "infer/prompts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/byte_order_mark.h"
#include "base/error.h"
#include "base/json.h"
#include "base/read_text.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/text_encoding.h"

namespace ravine {
namespace {

constexpr int64_t kMostPrompts = int64_t{64} << 20;  // bytes of a file

// Calls f(line, number) for each line; numbers begin at 1. Calls `count` first with an upper bound of the number of
// lines.
template <class Count, class F>
void each_line(const std::string& path, const Count& count, const F& f) {
  std::string text = read_text(path, kMostPrompts, "the prompts");
  refuse_other_bytes(text, path);
  drop_byte_order_mark(text);
  count(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (find_invalid_utf8(line) != std::string::npos)
      throw UserError("text is not UTF-8", fmt::format("{}:{}", path, number), "prompts must be UTF-8",
                      encoding_advice(text, path));
    f(std::move(line), number);
  }
}

std::string text_of(const Json& line, const std::string& text_key, const std::string& where) {
  for (const std::string& key : {std::string("prompt"), text_key})
    if (line.is_object() && line.contains(key) && line.at(key).is_string()) return line.at(key).get<std::string>();
  throw UserError("no prompt", where, fmt::format("a line must be an object with a text under \"prompt\" or \"{}\"", text_key),
                  "correct the line, or set data.text_key");
}

std::string adapter_of(const Json& line, const std::string& where) {
  const auto it = line.find("adapter");
  if (it == line.end() || it->is_null()) return "";
  if (!it->is_string() || it->get_ref<const std::string&>().empty())
    throw UserError("\"adapter\" is not a name", where, "it must be a text: the NAME of a flag --adapter NAME=DIR",
                    "correct the line, or leave \"adapter\" out for the model alone");
  return it->get<std::string>();
}

}  // namespace

std::vector<PromptText> read_prompt_texts(const std::string& path, const std::string& text_key) {
  bool json = path.ends_with(".jsonl");
  if (!json && !path.ends_with(".txt"))
    throw UserError("not a file of prompts", path, "prompts come from .txt, one per line, or .jsonl",
                    "name such a file; lists of ids are --prompt-ids FILE.json");
  std::vector<PromptText> texts;
  each_line(
      path, [&](size_t most) { texts.reserve(most); },
      [&](std::string&& words, int64_t number) {
        if (!json) {
          texts.push_back({.text = std::move(words), .adapter = {}, .line = number});
          return;
        }
        if (words.find_first_not_of(" \t") == std::string::npos) return;
        const std::string where = fmt::format("{}:{}", path, number);
        const Json line = parse_json(words, where);
        std::string text = text_of(line, text_key, where), adapter = adapter_of(line, where);
        texts.push_back({.text = std::move(text), .adapter = std::move(adapter), .line = number});
      });
  return texts;
}

std::vector<std::vector<int32_t>> read_prompt_ids(const std::string& path) {
  const char *rule = "it must be a JSON list of lists of ids", *fix = "for example [[1, 15, 7], [1, 20]]";
  if (std::error_code error; path.starts_with('[') && !std::filesystem::exists(path, error))
    throw UserError("ids instead of a file name", "--prompt-ids", "it takes the name of a JSON file with lists of ids",
                    fmt::format("write them into one: echo {} > ids.json, then --prompt-ids ids.json", shell_word(path)));
  Json all = read_json(path, int64_t{64} << 20);
  if (!all.is_array()) throw UserError("not a list", path, rule, fix);
  std::vector<std::vector<int32_t>> prompts;
  for (const Json& one : all) {
    std::string where = fmt::format("{}, prompt {}", path, prompts.size() + 1);
    if (!one.is_array()) throw UserError("not a list", where, rule, fix);
    std::vector<int32_t>& ids = prompts.emplace_back();
    for (const Json& id : one) {
      if (!id.is_number_integer() || std::abs(id.get<double>()) > 2e9)
        throw UserError(fmt::format("'{}' is no id", id.dump().substr(0, 40)), where, rule, fix);
      ids.push_back(id.get<int32_t>());
    }
  }
  return prompts;
}

}  // namespace ravine
