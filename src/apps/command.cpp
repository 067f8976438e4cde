#include "apps/command.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "apps/show_page.h"
#include "apps/stack.h"
#include "apps/stop_signals.h"
#include "apps/streams.h"
#include "base/error.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/narrow_option.h"
#include "base/parallel.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "base/version.h"
#include "config/command_help.h"
#include "config/named_path.h"
#include "config/other_names.h"
#include "dialects/foreign_words.h"
#include "files/fd.h"
#include "files/same_path.h"
#include "runs/run_folder.h"

namespace ravine {
namespace {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

const Command& find(const std::vector<Command>& commands, const std::string& word, const std::string& parent) {
  std::vector<std::string> names;
  for (const Command& c : commands) {
    names.push_back(last_word(c.spec.name));
    if (names.back() == word) return c;
  }
  std::string program = parent.empty() ? "ravine" : "ravine " + parent;
  std::string fix = did_you_mean(word, names, parent.empty() ? other_command_advice(word) : "");
  if (const std::string other = parent.empty() ? other_command_advice(word) : ""; !other.empty()) fix = other;
  if (fix.empty() && parent.empty() && (word.ends_with(".yaml") || word.ends_with(".yml")))
    fix = "a run is started by `ravine train --config " + shell_word(word) + "`";
  throw UserError(fmt::format("unknown {} '{}'", parent.empty() ? "command" : "action", word.substr(0, 80)), "command line",
                  program + " has no such " + (parent.empty() ? "command" : "action"),
                  fix.empty() ? fmt::format("see `{} --help`", program) : fix);
}

// Throws if the first word is a flag or an option: they follow the command.
void refuse_late_command(const std::vector<Command>& commands, const std::vector<std::string>& args, size_t at) {
  if (!args[at].starts_with('-') && args[at].find('=') == std::string::npos) return;
  const auto known = [&](const std::string& word) {
    return std::any_of(commands.begin(), commands.end(), [&](const Command& c) { return c.spec.name == word; });
  };
  std::string fix = "for example: ravine train --config run.yaml";
  if (const auto found = std::find_if(args.begin() + static_cast<std::ptrdiff_t>(at), args.end(), known); found != args.end()) {
    fix = "write: ravine " + *found;
    for (auto word = args.begin() + static_cast<std::ptrdiff_t>(at); word != args.end(); ++word)
      if (word != found) fix += " " + shell_word(*word);
  } else if (const std::string name = args[at].substr(0, args[at].find('=')); known(name)) {
    fix = fmt::format("write: ravine {} section.key=value ..", name);
  }
  if ((args[at] == "-n" || args[at] == "-np") && at + 1 < args.size())
    fix = fmt::format("ranks are started by mpirun: mpirun -n {} ravine train ..", shell_word(args[at + 1]));
  throw UserError(fmt::format("'{}' where a command is expected", args[at].substr(0, 80)), "command line",
                  "the command comes first, then its flags and options", fix);
}

// Returns the command that args[at] and the following words name; `at` then is the index after the name.
const Command& descend(const std::vector<Command>& commands, const std::vector<std::string>& args, size_t& at) {
  refuse_late_command(commands, args, at);
  const Command* c = &find(commands, args[at++], "");
  while (!c->actions.empty() && at < args.size() && args[at][0] != '-') c = &find(c->actions, args[at++], c->spec.name);
  return *c;
}

// Returns the values of options with this kind of path, as (flag, path).
std::vector<std::pair<std::string, std::string>> paths_of(const std::vector<Option>& flags, Rule::Path kind) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Option& f : flags) {
    if (f.rule.path != kind) continue;
    const std::string name = f.rule.positional || !f.section.empty() ? f.name() : "--" + f.key;
    if (std::holds_alternative<std::string*>(f.target)) out.emplace_back(name, f.path());
    if (const auto* list = std::get_if<std::vector<std::string>*>(&f.target))
      for (const std::string& text : **list) out.emplace_back(name, f.rule.named ? named_path(text).path : text);
  }
  // Lists of records, such as data.train, have paths in their fields.
  for (const Option& f : flags)
    if (const auto* records = std::get_if<std::shared_ptr<Records>>(&f.target))
      for (size_t i = 0; i < (*records)->size(); ++i)
        for (const Option& field : (*records)->fields(i))
          if (field.rule.path == kind && std::holds_alternative<std::string*>(field.target))
            out.emplace_back(f.name(), field.path());
  std::erase_if(out, [](const auto& p) { return p.second.empty() || p.second == "-"; });
  return out;
}

void refuse_input(const std::string& to, const std::string& out, const std::string& from, const std::string& in, bool folder) {
  const bool same = same_path(out, in);
  if (same || (folder && lies_within(out, in)))
    throw UserError(fmt::format("{} is {}{}", to, same ? "" : "inside ", from), out,
                    fmt::format("an input of the command, here '{}', cannot be its output", in), "choose another " + to);
}

// Throws if an output is an input, is inside a folder that is an input, or has a name that only a run writes in its
// folder. Of the config only inputs are checked: the command train checks its output folder in more detail.
void keep_inputs(const std::vector<Option>& flags, const CommandSpec& spec, Config& config) {
  std::vector<Option> read = flags;
  // The option of the config stands for both.
  std::erase_if(read, [](const Option& f) { return !f.rule.same_as.empty(); });
  for (Section& s : sections_of(config))
    for (Option& o : s.options)
      if (takes(spec, o)) read.push_back(std::move(o));
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [key, source] : config.sources)
    if (const size_t colon = source.rfind(':'); colon != std::string::npos)
      files.emplace_back("--config", source.substr(0, colon));
  for (const auto& [to, out] : paths_of(flags, Rule::Path::writes))
    if (const std::string run = run_that_owns(out); !run.empty())
      throw UserError(fmt::format("{} is a file of a run", to), out,
                      fmt::format("in the folder of a run, here '{}', only that run writes this name", run),
                      "choose another " + to);
  for (const auto& [to, out] : paths_of(flags, Rule::Path::writes)) {
    refuse_inputs(read, to, {out});
    for (const auto& [from, in] : files) refuse_input(to, out, from, in, false);
  }
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  for (const char* suffix : {"", ".idx"})  // also a prefix of token files
    if (std::filesystem::exists(path.string() + suffix, error)) return true;
  return false;
}

// Throws if a relative path of a config does not exist here but exists next to the config. The command was typed in
// another folder, or the folder was moved with its config.
void refuse_misplaced(const CommandSpec& spec, Config& config) {
  namespace fs = std::filesystem;
  auto look = [&](const std::string& name, const std::string& source, const std::string& text) {
    const fs::path path = text, config_folder = fs::path(source.substr(0, source.rfind(':'))).parent_path();
    if (text.empty() || is_there(path)) return;
    if (path.is_relative() && !config_folder.empty() && is_there(config_folder / path))
      throw UserError("no such file or folder", fmt::format("{}: {}={}", source, name, text),
                      "a relative path starts at the folder in which the command is typed",
                      fmt::format("it is next to the config: `cd {}` first, or write {}", shell_word(config_folder.string()),
                                  (config_folder / path).lexically_normal().string()));
    for (fs::path rest = path.parent_path(), name_there = path.filename(); path.is_absolute() && rest.has_relative_path();
         name_there = rest.filename() / name_there, rest = rest.parent_path())
      if (!is_there(rest) && is_there((config_folder.empty() ? fs::path(".") : config_folder) / name_there))
        throw UserError("no such file or folder", fmt::format("{}: {}={}", source, name, text),
                        "it seems that the config was moved with the files that it names",
                        fmt::format("write {} in it", fs::absolute(config_folder / name_there).lexically_normal().string()));
  };
  for (const Section& s : sections_of(config))
    for (const Option& o : s.options) {
      const auto source = config.sources.find(o.name());
      if (source == config.sources.end() || source->second == "command line" || !takes(spec, o)) continue;
      auto reads = [](const Option& x) { return x.rule.path == Rule::Path::reads || x.rule.path == Rule::Path::reads_folder; };
      if (reads(o)) look(o.name(), source->second, o.path());
      if (const auto* records = std::get_if<std::shared_ptr<Records>>(&o.target))
        for (size_t i = 0; i < (*records)->size(); ++i)
          for (const Option& field : (*records)->fields(i))
            if (reads(field)) look(o.name(), source->second, field.path());
    }
}

// Runs the command. `lasting` is set to CommandSpec::lasting of this command.
int dispatch(const std::vector<Command>& commands, const std::vector<std::string>& args, bool& lasting) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "--help-all")
    return show_page(overview(commands)), 0;
  if (args[0] == "--version" || args[0] == "-v" || args[0] == "-V" || args[0] == "version")
    return print(std::string(program_version()) + "\n"), 0;
  size_t at = args[0] == "help" ? 1 : 0;
  if (at == args.size()) return show_page(overview(commands)), 0;
  bool wants_help = at == 1;
  const Command& c = descend(commands, args, at);
  std::vector<std::string> rest(args.begin() + static_cast<std::ptrdiff_t>(at), args.end());
  if (std::optional<HelpRequest> help = requested_help(rest); help || wants_help) {
    if (!help) help = HelpRequest{};
    if (!help->section.empty() && !c.actions.empty()) help->section.clear();
    return show_page(help->section.empty() ? help_page(c, help->all) : section_help(c.spec, help->section)), 0;
  }
  if (!c.actions.empty()) {
    if (!rest.empty()) find(c.actions, rest[0], c.spec.name);
    throw UserError(fmt::format("{} needs an action", c.spec.name), "command line",
                    fmt::format("one of those in `ravine {} --help`", c.spec.name), "for example: " + c.spec.example);
  }
  if (c.spec.alone && launched_as_several())
    throw UserError(fmt::format("{} on several ranks", c.spec.name), "mpirun",
                    "this command runs on one rank only, and would do the same on each", "run it without mpirun");
  lasting = c.spec.lasting;
  if (lasting) outlive_streams();
  std::optional<EndBySignal> early;
  // A launcher ends ranks by signals, and prints messages itself.
  if (c.spec.stoppable && !launched_as_several()) early.emplace();
  HeldSignals::release();
  auto call = c.call();
  if (c.rewrite) rest = c.rewrite(rest);
  std::optional<Config> read = call->read(rest);
  Config config = read ? std::move(*read) : read_command_line(c.spec, call->flags(), rest, words_of_dialects);
  keep_inputs(call->flags(), c.spec, config);
  if (c.spec.name != "config") refuse_misplaced(c.spec, config);  // `ravine config` shows a config unchanged
  if (config.train.threads > 0) set_thread_count(narrow_option<int>(config.train.threads, "train.threads"));
  return call->run(config);
}

int report(const char* text, int status) {
  HeldSignals::release();
  std::fflush(stdout);
  // Ranks that are started alike make the same mistake. Rank 0 reports it, and the launcher ends the others meanwhile.
  if (launched_rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(4));
  print_stderr(fmt::format("error: {}", escaped(text)));
  return status;
}

// Reports an exception of a std::filesystem call: a UserError if the path is wrong.
int report_path(const std::filesystem::filesystem_error& e) {
  try {
    throw_system("use file or folder", (e.path2().empty() ? e.path1() : e.path2()).string(), e.code().value());
  } catch (const UserError& user) {
    return report(user.what(), 2);
  } catch (const std::exception& other) {
    return report(other.what(), 1);
  }
}

constexpr std::string_view kNoMemory = "error: memory: the machine has no more; use smaller batches or see `ravine plan`\n";

// The terminate handler. An exception that leaves a thread of a library cannot be caught; the process ends with a
// message and a status.
[[noreturn]] void end_by_lost_exception() {
  std::string text;
  try {
    if (const std::exception_ptr lost = std::current_exception()) std::rethrow_exception(lost);
    std::abort();
  } catch (const std::bad_alloc&) {
    static_cast<void>(::write(STDERR_FILENO, kNoMemory.data(), kNoMemory.size()) == 0);  // takes no memory
    std::_Exit(1);
  } catch (const std::exception& e) {
    text = e.what();
  } catch (...) {
    text = "an exception of a library";
  }
  print_stderr(fmt::format("error: {}", escaped(text)));
  std::_Exit(1);
}

int report_lost_output(const std::system_error& e, bool lasting) {
  try {
    if (!lasting) finish_output(false);  // a lasting command may be incomplete
  } catch (const std::exception& lost) {
    return report(lost.what(), 1);
  }
  if (e.code() == std::errc::resource_unavailable_try_again)
    return report(
        "threads: the system gives this process no more of them (ulimit -u, or its container's limit); use fewer: --threads",
        1);
  return report(e.what(), 1);
}

}  // namespace

void refuse_inputs(const std::vector<Option>& flags, const std::string& to, const std::vector<std::string>& outputs) {
  struct stat given {};
  const bool file = ::fstat(STDIN_FILENO, &given) == 0 && S_ISREG(given.st_mode);
  for (const std::string& out : outputs) {
    struct stat there {};
    if (file && ::stat(out.c_str(), &there) == 0 && there.st_dev == given.st_dev && there.st_ino == given.st_ino)
      throw UserError(fmt::format("{} is the file of stdin", to), out, "an input of the command cannot be its output",
                      "choose another " + to);
    for (const auto kind : {Rule::Path::reads, Rule::Path::reads_folder})
      for (const auto& [from, in] : paths_of(flags, kind)) {
        // An option of a config that names a folder, such as data.train or model.tokenizer, reads all of its files.
        std::error_code error;
        const bool of_config = !from.starts_with("--") && from.find('.') != std::string::npos;
        refuse_input(to, out, from, in,
                     kind == Rule::Path::reads_folder || (of_config && std::filesystem::is_directory(in, error)));
      }
  }
}

std::string help_page(const Command& c, bool all) {
  if (c.actions.empty()) {
    auto call = c.call();
    return all ? command_help(c.spec, call->flags()) : common_help(c.spec, call->flags());
  }
  std::string text = fmt::format("Example:\n  {}\n\n{}: {}\n\nUsage: ravine {} ACTION [flags]\n\nActions:\n", c.spec.example,
                                 c.spec.name, c.spec.summary, c.spec.name);
  for (const Command& a : c.actions) text += fmt::format("  {:<12} {}\n", last_word(a.spec.name), a.spec.summary);
  return text + fmt::format("\n`ravine {} ACTION --help` tells more.\n", c.spec.name);
}

std::string overview(const std::vector<Command>& commands) {
  std::string text =
      "Example:\n  ravine train model.path=DIR data.train=corpus.txt train.output=runs/first\n\nravine trains, runs and "
      "examines large language models.\n"
      "\nUsage: ravine COMMAND [--config run.yaml] [section.key=value ..] [flags]\n";
  std::vector<std::string> groups;
  for (const Command& c : commands)
    if (std::find(groups.begin(), groups.end(), c.group) == groups.end()) groups.push_back(c.group);
  for (const std::string& g : groups) {
    text += "\n" + g + "\n";
    for (const Command& c : commands)
      if (c.group == g) text += fmt::format("  {:<12} {}\n", c.spec.name, c.spec.summary);
  }
  return text + "\n`ravine COMMAND --help` tells more; `ravine config --list` shows every option; `ravine --version`.\n";
}

int run_program(const std::vector<Command>& commands, const std::vector<std::string>& args) {
  bool lasting = false;
  std::set_terminate(end_by_lost_exception);
  try {
    prepare_stacks();
    int status = dispatch(commands, args, lasting);
    finish_output(lasting);
    return status;
  } catch (const std::filesystem::filesystem_error& e) {
    return report_path(e);
  } catch (const std::system_error& e) {  // an error of printing: reported, unless nobody reads
    return report_lost_output(e, lasting);
  } catch (const UserError& e) {
    return report(e.what(), 2);
  } catch (const Stopped& e) {
    std::fflush(stdout);
    print_stderr(escaped(e.what()));
    return 130;
  } catch (const std::bad_alloc&) {
    return report("memory: the machine has no more; use smaller batches or see `ravine plan`", 1);
  } catch (const std::exception& e) {
    return report(e.what(), 1);
  }
}

}  // namespace ravine
