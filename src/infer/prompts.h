// Prompts from the files that users bring. Whatever is wrong with a file is a UserError naming it and the line or prompt.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ravine {

struct PromptText {
  std::string text;
  std::string adapter;  // the name under "adapter"; "": none
  int64_t line = 0;     // of the file, from 1
};

// FILE.txt: one per line, empty lines too. FILE.jsonl: objects with a text under "prompt", else under `text_key`, and perhaps
// the name of an adapter; blank lines are passed over.
std::vector<PromptText> read_prompt_texts(const std::string& path, const std::string& text_key);

// A JSON list of lists of ids. Whether a model has them is not asked here.
std::vector<std::vector<int32_t>> read_prompt_ids(const std::string& path);

}  // namespace ravine
