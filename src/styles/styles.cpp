#include "styles/styles.h"

#include "base/error.h"
#include "styles/deepspeed_files.h"
#include "styles/megatron_files.h"
#include "styles/megatron_log.h"
#include "styles/mindformers_files.h"
#include "styles/mindformers_log.h"
#include "styles/trainer_files.h"

namespace ravine {

RunStyle style_of(const Config& config) {
  const struct {
    LogStyle name;
    RunStyle style;
  } lines[] = {{LogStyle::ravine, {}},
               {LogStyle::mindformers, {.console = mindformers_console_hook, .tensorboard = mindformers_tensorboard_hook}},
               {LogStyle::megatron, {.console = megatron_console_hook, .tensorboard = megatron_tensorboard_hook}}};
  const struct {
    CheckpointLayout name;
    std::shared_ptr<const CheckpointFiles> files;
  } layouts[] = {{CheckpointLayout::ravine, nullptr},
                 {CheckpointLayout::mindformers, mindformers_files()},
                 {CheckpointLayout::deepspeed, deepspeed_files()},
                 {CheckpointLayout::megatron, megatron_files()},
                 {CheckpointLayout::trainer, trainer_files()}};
  for (const auto& line : lines)
    for (const auto& layout : layouts)
      if (line.name == config.log.style && layout.name == config.checkpoint.layout) {
        RunStyle out = line.style;
        out.files = layout.files;
        return out;
      }
  fail("no row for log.style={} checkpoint.layout={}", name(config.log.style), name(config.checkpoint.layout));
}

}  // namespace ravine
