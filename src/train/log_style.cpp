#include "train/log_style.h"

#include "base/error.h"
#include "train/megatron_log.h"
#include "train/mindformers_log.h"

namespace ravine {
namespace {

struct Style {
  LogStyle style;
  std::unique_ptr<Hook> (*console)(int64_t every);
  std::unique_ptr<Hook> (*tensorboard)(int64_t every);
};
constexpr Style kStyles[] = {{LogStyle::ravine, console_hook, tensorboard_hook},
                             {LogStyle::mindformers, mindformers_console_hook, mindformers_tensorboard_hook},
                             {LogStyle::megatron, megatron_console_hook, megatron_tensorboard_hook}};

const Style& style_of(const LogOptions& options) {
  for (const Style& s : kStyles)
    if (s.style == options.style) return s;
  fail("log.style {} has no row", name(options.style));
}

}  // namespace

std::unique_ptr<Hook> console_of_style(const LogOptions& options) { return style_of(options).console(options.every); }
std::unique_ptr<Hook> tensorboard_of_style(const LogOptions& options) { return style_of(options).tensorboard(options.every); }

}  // namespace ravine
