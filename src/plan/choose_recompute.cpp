#include "plan/choose_recompute.h"

#include "base/error.h"
#include "base/log.h"

namespace ravine {

void choose_recompute(Config& config, const BytesNeeded& needed) {
  if (config.train.recompute != Recompute::automatic) return;
  int64_t bytes = 0;
  for (const Recompute candidate : {Recompute::none, Recompute::cheap, Recompute::full}) {
    config.train.recompute = candidate;
    bytes = needed(config);
    if (bytes <= config.train.memory_mb << 20) return;
  }
  throw UserError(fmt::format("a rank needs {} even with full recomputation", human_bytes(static_cast<double>(bytes))),
                  fmt::format("train.memory_mb={}", config.train.memory_mb),
                  "with train.recompute=auto the memory must fit this limit",
                  fmt::format("set train.memory_mb={} or more, or a smaller train.micro_batch", (bytes >> 20) + 1));
}

}  // namespace ravine
