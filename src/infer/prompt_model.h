// A model that answers prompts, and the options it answers by.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "infer/loaded_model.h"
#include "infer/processors.h"

namespace ravine {

struct GenerateOptions {
  int64_t max_new_tokens = 128;  // per prompt; prompt and new tokens must fit the model's positions
  int64_t max_length = 0;        // 0, or: prompt and new tokens together
  std::vector<int32_t> end_ids;  // any of them ends a sequence
  Processing processing;
  bool sample = false;  // false: greedy
  uint64_t seed = 0;
  int64_t alternatives = 0;    // the likeliest tokens at each place that are told besides (infer/batcher.h)
  int64_t batch = 16;          // sequences at a time
  int64_t step_tokens = 1024;  // prompt tokens per step: bounds the memory of activations
  const Recipe* recipe = nullptr;
  Observer* observer = nullptr;     // of every kernel call
  std::vector<uint64_t> numbers;    // of the prompts, which draws are keyed by and messages name; empty: 0, 1, ..
  std::vector<std::string> places;  // of the prompts, by which messages name them: "asked.txt:3"; empty: "prompt 1", ..
  uint64_t number(size_t prompt) const { return numbers.empty() ? prompt : numbers[prompt]; }
  std::string place(size_t prompt) const {
    return places.empty() ? fmt::format("prompt {}", number(prompt) + 1) : places[prompt];
  }
};

// A model that answers some of the prompts, and its options.
struct PromptModel {
  const LoadedModel* loaded = nullptr;
  GenerateOptions options;
};

}  // namespace ravine
