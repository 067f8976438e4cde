#include "infer/speed.h"

#include <algorithm>

#include "base/clock.h"
#include "base/philox.h"
#include "infer/generator.h"
#include "model/decoder.h"

namespace ravine {
namespace {

using Prompts = std::vector<std::vector<int32_t>>;

Prompts random_prompts(const SpeedOptions& o, int64_t vocabulary) {
  Prompts prompts(static_cast<size_t>(o.batch));
  for (size_t r = 0; r < prompts.size(); ++r)
    for (int64_t t = 0; t < o.length; ++t) {
      const uint32_t word = philox(1, {static_cast<uint32_t>(t), static_cast<uint32_t>(r), 0, 0})[0];
      prompts[r].push_back(static_cast<int32_t>(word % static_cast<uint64_t>(vocabulary)));
    }
  return prompts;
}

GenerateOptions generate_options(const SpeedOptions& o, int64_t new_tokens) {
  GenerateOptions g;
  g.max_new_tokens = new_tokens;
  g.batch = o.batch;
  return g;
}

// Returns the number of keys that a query at the end of `keys` tokens sees, summed over layers; a window limits it.
int64_t seen_keys(const Model& model, int64_t keys) {
  int64_t sum = 0;
  for (int64_t i = 0; i < model.facts().layers; ++i) {
    const int64_t window = model.decoder() ? model.decoder()->window(i) : 0;
    sum += window > 0 ? std::min(window, keys) : keys;
  }
  return sum;
}

// Returns the FLOPs of one pass over `tokens` tokens. pairs: pairs of query and key, summed over layers; rows: rows
// with logits.
double flops_of(const Model& model, double tokens, double pairs, double rows) {
  const ModelFacts& f = model.facts();
  const double head = static_cast<double>(f.vocabulary) * static_cast<double>(f.hidden);
  return 2 * (static_cast<double>(model.params().matrix_count()) - head) * tokens + 2 * head * rows +
         2 * static_cast<double>(f.heads * (f.head_size + f.value_size)) * pairs;
}

int64_t weight_bytes(const LoadedModel& s, int64_t tokens) {
  int64_t bytes = 0;
  for (const Param& p : s.model->params().params()) {
    const TensorView v = s.store->value(p);
    // A tied head is counted under its own name. Of experts, as many are counted as the tokens can select.
    const double part = std::min(1.0, p.active * static_cast<double>(tokens));
    bytes += p.use == Use::table ? tokens * v.cols() * size_of(v.dtype)
             : p.active < 1      ? static_cast<int64_t>(part * static_cast<double>(v.bytes()))
                                 : v.bytes();
  }
  return bytes;
}

}  // namespace

Speed measure_prefill(const LoadedModel& loaded, const SpeedOptions& o) {
  const ModelFacts& f = loaded.model->facts();
  const Prompts prompts = random_prompts(o, f.vocabulary);
  GenerateOptions g = generate_options(o, 1);
  Speed s;
  s.seconds = 1e30;
  for (int64_t i = 0; i <= o.steps; ++i) {
    if (i == o.steps) {
      g.observer = o.observer;
      if (o.begin) o.begin();
    }
    const double began = seconds_now();
    generate(loaded, prompts, g, {}, "--sequence-length");
    if (i > 0) s.seconds = std::min(s.seconds, seconds_now() - began);
  }
  const double batch = static_cast<double>(o.batch), length = static_cast<double>(o.length);
  s.tokens_per_second = batch * length / s.seconds;
  int64_t pairs = 0;
  for (int64_t i = 0; i < f.layers; ++i)
    pairs += attended_pairs(loaded.model->decoder() ? loaded.model->decoder()->window(i) : 0, o.length);
  s.flops = flops_of(*loaded.model, batch * length, batch * static_cast<double>(pairs), batch);
  s.weight_bytes = weight_bytes(loaded, o.batch * o.length);
  return s;
}

Speed measure_decode(const LoadedModel& loaded, const SpeedOptions& o) {
  const ModelFacts& f = loaded.model->facts();
  constexpr int64_t kWarm = 2;
  GenerateOptions g = generate_options(o, 1 + kWarm + o.steps);
  g.observer = o.observer;
  // A step is measured if every sequence had a token before it.
  std::vector<double> times;
  int64_t writing = 0, warm = 0;
  double began = 0;
  std::vector<bool> has(static_cast<size_t>(o.batch), false);
  GenerateEvents events;
  events.token = [&](size_t prompt, int32_t) {
    if (!has[prompt]) ++writing;
    has[prompt] = true;
    return true;
  };
  events.stop = [&] {
    const double t = seconds_now();
    if (warm > kWarm) times.push_back(t - began);
    if (writing == o.batch && warm++ == kWarm && o.begin) o.begin();
    began = seconds_now();
    return static_cast<int64_t>(times.size()) == o.steps;
  };
  const Prompts prompts = random_prompts(o, f.vocabulary);
  // The first sequences generate during the prefill of the last.
  g.max_new_tokens += ceil_div(o.batch * o.length, g.step_tokens);
  generate(loaded, prompts, g, events, "--sequence-length");
  require(static_cast<int64_t>(times.size()) == o.steps, "bench: {} steps of {}", times.size(), o.steps);
  std::nth_element(times.begin(), times.begin() + o.steps / 2, times.end());
  Speed s;
  s.seconds = times[static_cast<size_t>(o.steps / 2)];
  const double batch = static_cast<double>(o.batch);
  const int64_t keys = o.length + 1 + kWarm + o.steps;
  s.tokens_per_second = batch / s.seconds;
  const int64_t seen = seen_keys(*loaded.model, keys);
  s.flops = flops_of(*loaded.model, batch, batch * static_cast<double>(seen), batch);
  s.weight_bytes = weight_bytes(loaded, o.batch);
  const CacheWidths row = cache_widths(loaded.model->decoder()->attention, 1);
  s.cache_bytes = seen * (row.keys + row.values) * size_of(loaded.types.compute) * o.batch;
  return s;
}

}  // namespace ravine
