// `ravine config`: the resolved config with warnings of likely mistakes, or what an option means.
#include <fmt/format.h>

#include "apps/commands.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/advice.h"

namespace ravine {
namespace {

struct ConfigFlags {
  ModelFlag model;
  bool list = false, markdown = false;
  std::string explain;
  template <class V>
  void each(V&& v) {
    model.each(v);
    v("list", list, "every option with default, meaning and type");
    v("explain", explain, "one option or section: meaning, type, default, value and where it came from", metavar("KEY"));
    v("markdown", markdown, "the page docs/options.md");
  }
};

int run_config(ConfigFlags& flags, Config& config) {
  if (flags.list + flags.markdown + !flags.explain.empty() > 1)
    throw UserError("--list, --explain and --markdown", "command line", "only one of them at a time", "remove the others");
  std::string text = flags.list               ? defaults_text()
                     : flags.markdown         ? options_markdown()
                     : !flags.explain.empty() ? explain(config, flags.explain)
                                              : to_yaml(config);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (!flags.list && !flags.markdown && flags.explain.empty())
    for (const std::string& line : likely_mistakes(config)) say("warning: " + escaped(line));
  return 0;
}

}  // namespace

Command config_command() {
  Config all;
  std::vector<std::string> names;
  for (const Section& s : sections_of(all)) names.push_back(s.name);
  return command<ConfigFlags>({.name = "config",
                               .summary = "print the resolved config, list or explain options",
                               .example = "ravine config --config run.yaml train.steps=50",
                               .sections = names},
                              "Machine", run_config);
}

}  // namespace ravine
