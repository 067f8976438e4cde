// Reads prompts from files. A fault of a file is a UserError that names the file and the line or prompt.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ravine {

struct PromptText {
  std::string text;
  std::string adapter;  // the name under "adapter"; "": none
  int64_t line = 0;     // line of the file, from 1
};

// Reads the text prompts of a file.
// FILE.txt: one prompt per line; an empty line is an empty prompt.
// FILE.jsonl: objects with a text under "prompt", else under `text_key`, and optionally a name under "adapter"; blank
// lines are skipped.
std::vector<PromptText> read_prompt_texts(const std::string& path, const std::string& text_key);

// Reads prompts as token ids from a JSON file, a list of lists of ids. The ids are not compared with a vocabulary.
std::vector<std::vector<int32_t>> read_prompt_ids(const std::string& path);

}  // namespace ravine
