// A config as a word of its own: `ravine check lr0 run.yaml` for `--config run.yaml`.
#pragma once
#include <string>
#include <vector>

namespace ravine {

// Returns the arguments with --config before the first word that ends in .yaml or .yml and follows no flag.
inline std::vector<std::string> config_word(std::vector<std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& w = words[i];
    const bool yaml = (w.ends_with(".yaml") || w.ends_with(".yml")) && !w.starts_with("-") && w.find('=') == std::string::npos;
    if (yaml && (i == 0 || !words[i - 1].starts_with("--") || words[i - 1] == "--json" || words[i - 1] == "--perturb" ||
                 words[i - 1] == "--overwrite")) {
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(i), "--config");
      break;
    }
  }
  return words;
}

}  // namespace ravine
