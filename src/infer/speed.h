// Measures how fast a model reads prompts and generates tokens. The measurement runs `generate` itself, with KV cache
// and sampling.
#pragma once
#include <functional>

#include "infer/loaded_model.h"

namespace ravine {

struct SpeedOptions {
  int64_t batch = 1;      // sequences at a time
  int64_t length = 1024;  // tokens of each prompt; decode: tokens in the cache when decoding begins
  // prefill: number of measured prefills, after one for warmup; decode: number of measured steps
  int64_t steps = 5;
  Observer* observer = nullptr;
  // Called when the observed part begins: the last prefill, or the measured steps of decoding.
  std::function<void()> begin;
};

struct Speed {
  double seconds = 0;            // of the fastest prefill; of the median decoding step
  double tokens_per_second = 0;  // of all sequences together
  // FLOPs of one prefill or step: matrix products (head: only rows with logits) and attention without masked pairs.
  double flops = 0;
  // Bytes of weights that one pass reads at least: each matrix once, one row of the embedding per token.
  int64_t weight_bytes = 0;
  int64_t cache_bytes = 0;  // keys and values that the last step reads
};

// Measures prefill: random prompts of one length, until the first token of each is chosen.
Speed measure_prefill(const LoadedModel& loaded, const SpeedOptions& options);
// Measures greedy decoding from options.length tokens per sequence. A UserError if the model has too few positions.
Speed measure_decode(const LoadedModel& loaded, const SpeedOptions& options);

}  // namespace ravine
