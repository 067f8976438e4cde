// A model that answers prompts, and its options of generation.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "infer/loaded_model.h"
#include "infer/processors.h"

namespace ravine {

struct GenerateOptions {
  int64_t max_new_tokens = 128;  // per prompt; prompt and new tokens must fit the model's positions
  int64_t max_length = 0;        // 0: no limit; else the limit of prompt and new tokens together
  std::vector<int32_t> end_ids;  // any of them ends a sequence
  Processing processing;
  bool sample = false;  // false: greedy
  uint64_t seed = 0;
  int64_t alternatives = 0;    // number of most likely tokens that are reported at each position (infer/batcher.h)
  int64_t batch = 16;          // sequences at a time
  int64_t step_tokens = 1024;  // prompt tokens per step: limits the memory of activations
  const Recipe* recipe = nullptr;
  Observer* observer = nullptr;  // called for every kernel call
  // The number of each prompt: a key of its random draws, and part of its name in messages; empty: 0, 1, ..
  std::vector<uint64_t> numbers;
  // The name of each prompt in messages: "asked.txt:3"; empty: "prompt 1", ..
  std::vector<std::string> prompt_names;
  uint64_t number(size_t prompt) const { return numbers.empty() ? prompt : numbers[prompt]; }
  std::string prompt_name(size_t prompt) const {
    return prompt_names.empty() ? fmt::format("prompt {}", number(prompt) + 1) : prompt_names[prompt];
  }
};

// A loaded model that answers some of the prompts, and the options of generation for these prompts.
struct PromptModel {
  const LoadedModel* loaded = nullptr;
  GenerateOptions options;
};

}  // namespace ravine
