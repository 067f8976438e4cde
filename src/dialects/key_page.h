// Makes the page docs/keys-PROGRAM.md from the tables of a dialect: each key with its type, status, and option or
// reason.
#pragma once
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

// The keys under one heading. A key that ends with * matches all keys below it.
struct KeySection {
  std::string title;
  DialectTable rows;
};
// Returns the page as Markdown. `command`: "trainer", for the text.
std::string key_page(const std::string& command, const std::vector<KeySection>& sections);

std::vector<KeySection> mindformers_key_sections();
std::vector<KeySection> trainer_key_sections();
std::vector<KeySection> megatron_key_sections();

}  // namespace ravine
