// Makes the page docs/keys-PROGRAM.md from the tables of a dialect: each key with its type, status, and option or
// reason.
#pragma once
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

// A section of the page of a program's keys: a heading and its keys. A key that ends with * matches all keys below it.
struct KeySection {
  std::string title;
  DialectTable rows;
};
// Returns the page docs/keys-PROGRAM.md as Markdown. command: Ravine's command for the program's jobs ("trainer"),
// which the text names.
std::string key_page(const std::string& command, const std::vector<KeySection>& sections);

std::vector<KeySection> mindformers_key_sections();
std::vector<KeySection> trainer_key_sections();
std::vector<KeySection> megatron_key_sections();

}  // namespace ravine
