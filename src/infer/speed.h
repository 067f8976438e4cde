// How fast a model reads prompts and writes tokens, by running `generate` itself: cache, choice of tokens and all.
#pragma once
#include <functional>

#include "infer/loaded_model.h"

namespace ravine {

struct SpeedOptions {
  int64_t batch = 1;      // sequences at a time
  int64_t length = 1024;  // tokens of each prompt; decode: tokens in the cache when writing begins
  int64_t steps = 5;      // prefill: prompts read, after one to warm up; decode: steps of one token per sequence
  Observer* observer = nullptr;
  std::function<void()> begin;  // called when the observed part begins: the last prefill, or the steps of decode
};

struct Speed {
  double seconds = 0;            // of the fastest prefill; of the median step of decode
  double tokens_per_second = 0;  // of all sequences together
  double flops = 0;  // of the model, one prefill or step: products (head: rows that are asked for only), attention as masked
  int64_t weight_bytes = 0;  // that one pass must read at least: each matrix once, one row of the embedding per token
  int64_t cache_bytes = 0;   // keys and values that the last step reads
};

// Random prompts of one length, read until the first token of each is chosen.
Speed measure_prefill(const LoadedModel& loaded, const SpeedOptions& options);
// Greedy, from a cache of options.length tokens per sequence on. UserError if the model has not the positions.
Speed measure_decode(const LoadedModel& loaded, const SpeedOptions& options);

}  // namespace ravine
