// Measures how fast a model reads prompts and generates tokens. The measurement runs `generate` itself, with KV cache
// and sampling.
#pragma once
#include <functional>

#include "infer/loaded_model.h"

namespace ravine {

struct SpeedOptions {
  int64_t batch = 1;      // sequences at a time
  int64_t length = 1024;  // tokens of each prompt; decode: tokens in the cache when decoding begins
  // Number of measurements. prefill: measured prefills, after one for warmup. decode: measured decoding steps.
  int64_t steps = 5;
  Observer* observer = nullptr;
  // Called when the part of the measurement begins that `observer` sees: the last prefill, or the measured steps of
  // decoding.
  std::function<void()> begin;
};

struct Speed {
  double seconds = 0;            // of the fastest prefill; of the median decoding step
  double tokens_per_second = 0;  // of all sequences together
  // FLOPs of one prefill or decoding step: matrix products (head: only rows with logits) and attention without masked
  // pairs.
  double flops = 0;
  // Bytes of weights that one prefill or decoding step reads at least: each matrix once, one row of the embedding per
  // token.
  int64_t weight_bytes = 0;
  int64_t cache_bytes = 0;  // keys and values that the last step reads
};

// Measures the speed of prefill: the time to read random prompts of options.length tokens, until the first new token of
// each is chosen.
Speed measure_prefill(const LoadedModel& loaded, const SpeedOptions& options);
// Measures the speed of greedy decoding, from options.length tokens in the cache of each sequence. A UserError if the
// model has too few positions.
Speed measure_decode(const LoadedModel& loaded, const SpeedOptions& options);

}  // namespace ravine
