#include "dialects/foreign_words.h"

#include <algorithm>
#include <map>

#include "config/takes.h"
#include "dialects/key_page.h"

namespace ravine {
namespace {

struct Words {
  std::map<std::string, std::vector<ForeignWord>> whole, last;  // rows by key, and used keys by their last part
};

std::string plain(std::string key) {
  key.erase(0, std::min(key.find_first_not_of('-'), key.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

// Returns the first option of a row.
std::string first_option(const std::string& options) { return options.substr(0, options.find_first_of(" ,")); }

// Returns a row's advice. A reason "where it is 0; else refused: .." is cut to its last part.
std::string advice_of(const DialectKey& row) {
  static constexpr std::string_view kElse = "else refused: ";
  if (row.status == KeyStatus::used) return "";
  if (row.status == KeyStatus::refused) return row.reason + ": " + row.fix;
  const size_t at = row.reason.find(kElse);
  return "leave it out: " + (at == std::string::npos ? row.reason : row.reason.substr(at + kElse.size()));
}

// Returns " (schedule.type OptimizerParamScheduler)" for an option that only applies with another type than the
// default.
std::string which_takes_it(const std::string& option) {
  const Taken* taken = taken_by(option);
  if (!taken) return "";
  Config standard;
  for (const Section& s : sections_of(standard))
    for (const Option& o : s.options)
      if (o.name() == taken->selector && std::find(taken->values.begin(), taken->values.end(), o.yaml()) != taken->values.end())
        return "";
  return taken_text(option);
}

void add(Words& words, const std::vector<KeySection>& sections, const std::string& flags, const std::string& file) {
  for (const KeySection& section : sections)
    for (const DialectKey& row : section.rows) {
      const bool used = row.status == KeyStatus::used, flag = row.key.starts_with("--");
      if (used && row.option.find_first_of(".-") == std::string::npos) continue;  // the row names no option
      const std::string key = plain(row.key);
      ForeignWord word{.line = flag ? flags : file,
                       .option = used ? first_option(row.option) : "",
                       .same = row.same,
                       .condition = used ? which_takes_it(first_option(row.option)) : "",
                       .advice = advice_of(row)};
      words.whole[key].push_back(word);
      const size_t dot = key.rfind('.');
      if (used && dot != std::string::npos) words.last[key.substr(dot + 1)].push_back(word);
      for (size_t end = key.find('.'); end != std::string::npos && !flag; end = key.find('.', end + 1)) {
        std::vector<ForeignWord>& of_section =
            words.whole[key.substr(0, end)];  // the section gets no advice of a row; its keys have their own
        std::erase_if(of_section, [&](const ForeignWord& w) { return w.line == file && w.option.empty(); });
        of_section.push_back({.line = file, .option = "", .same = false, .condition = "", .advice = ""});
      }
    }
}

Words all_words() {
  Words words;
  add(words, trainer_key_sections(), "ravine trainer", "ravine trainer --deepspeed");
  add(words, megatron_key_sections(), "ravine megatron", "");
  add(words, mindformers_key_sections(), "ravine mindformers", "ravine mindformers --config");
  return words;
}

}  // namespace

std::vector<ForeignWord> words_of_dialects(const std::string& word) {
  static const Words words = all_words();
  std::vector<ForeignWord> found;
  for (const auto* of : {&words.whole, &words.last})
    if (const auto it = of->find(word); it != of->end()) found.insert(found.end(), it->second.begin(), it->second.end());
  return found;
}

}  // namespace ravine
