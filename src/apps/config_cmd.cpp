// `ravine config`: prints the resolved config with warnings, explains an option, or prints the config in the format of
// another program.
#include <fmt/format.h>

#include <filesystem>

#include "apps/commands.h"
#include "base/error.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "dialects/reverse.h"
#include "train/advice.h"

namespace ravine {
namespace {

struct ConfigFlags {
  ModelFlag model;
  bool list = false, markdown = false;
  std::string explain, to;
  template <class V>
  void each(V&& v) {
    model.each(v);
    v("list", list, "list every option with default, meaning and type");
    v("explain", explain, "explain an option or section: meaning, type, default, value and the source of the value",
      metavar("KEY"));
    v("to", to, "print the config as Megatron's flags or DeepSpeed's JSON; options without one: on stderr",
      one_of(programs()) & metavar("PROGRAM"));
    v("markdown", markdown, "print the page docs/options.md");
  }
  static std::vector<std::string> programs() {
    std::vector<std::string> names = {""};
    for (const ForeignWriter& w : foreign_writers()) names.push_back(w.name);
    return names;
  }
};

// Returns the config.json of the model; null if the config names none.
Json described_model(const Config& c) {
  if (!c.model.path.empty()) return read_json((std::filesystem::path(c.model.path) / "config.json").string());
  if (c.model.config.empty()) return nullptr;
  return is_inline(c.model.config) ? parse_json(c.model.config, "model.config") : read_json(c.model.config);
}

int write_for(const std::string& program, const Config& config) {
  for (const ForeignWriter& w : foreign_writers()) {
    if (w.name != program) continue;
    const ForeignForm form = w.write(config, described_model(config));
    std::fwrite(form.text.data(), 1, form.text.size(), stdout);
    std::fflush(stdout);
    std::string flags;
    for (const std::string& word : form.flags) flags += " " + shell_word(word);
    if (!flags.empty()) print_stderr("flags:" + escaped(flags));
    for (const std::string& notice : form.notices) print_stderr("notice: " + escaped(notice));
    for (const UnsaidOption& o : form.unsaid)
      print_stderr("not said: " + escaped(fmt::format("{}={} (it comes to {})", o.option, o.value, o.theirs)));
  }
  return 0;
}

int run_config(ConfigFlags& flags, Config& config) {
  if (flags.list + flags.markdown + !flags.explain.empty() + !flags.to.empty() > 1)
    throw UserError("--list, --explain, --to and --markdown", "command line", "only one of them at a time",
                    "remove the others");
  if (!flags.to.empty()) return write_for(flags.to, config);
  std::string text = flags.list               ? defaults_text()
                     : flags.markdown         ? options_markdown()
                     : !flags.explain.empty() ? explain(config, flags.explain)
                                              : to_yaml(config);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (!flags.list && !flags.markdown && flags.explain.empty())
    for (const std::string& line : likely_mistakes(config)) print_stderr("warning: " + escaped(line));
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
