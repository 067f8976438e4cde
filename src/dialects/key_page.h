// What a dialect knows, as the page docs/keys-PROGRAM.md: each key with its type, what becomes of it, and the option or the reason.
#pragma once
#include <string>
#include <vector>

#include "dialects/dialect.h"

namespace ravine {

// Keys under one heading. A key that stands for all below it ends with *.
struct KeySection {
  std::string title;
  DialectTable rows;
};
std::string key_page(const std::string& command, const std::vector<KeySection>& sections);

std::vector<KeySection> mindformers_key_sections();
std::vector<KeySection> trainer_key_sections();
std::vector<KeySection> megatron_key_sections();

}  // namespace ravine
