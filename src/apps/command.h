// The frame of a command. One file apps/<name>.cpp holds one command:
//
//   struct StopFlags {
//     std::string output;
//     template <class V> void each(V&& v) { v("output-dir", output, "folder of the run", positional() & required()); }
//   };
//   // Returns the exit status. Throws UserError, Error or Stopped.
//   int run_stop(StopFlags& flags, Config& config);
//   Command stop_command() {
//     return command<StopFlags>(
//         {.name = "stop", .summary = "ask a run to save and stop", .example = "ravine stop runs/demo"},
//         "Machine", run_stop);
//   }
//
// This declaration gives parsing, validation, help and completion (config/command_line.h).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/command_line.h"
#include "kernels/backend.h"

namespace ravine {

// One call of a command: its flags have defaults, are filled, and then it is run.
struct Call {
  virtual ~Call() = default;
  virtual std::vector<Option> flags() = 0;  // valid as long as the call
  // Reads the arguments and returns the config, for a command that has its own syntax instead of the flags and sections
  // of its spec (dialect_command.h). Returns nothing for all other commands.
  virtual std::optional<Config> read(const std::vector<std::string>&) { return std::nullopt; }
  virtual int run(Config& config) = 0;
};

// A command, or a group of actions.
struct Command {
  CommandSpec spec;
  std::string group;                            // heading in the overview
  std::function<std::unique_ptr<Call>()> call;  // empty for a group of actions
  std::vector<Command> actions;                 // `ravine tokenizer encode`: each action is a command
  // A function that returns the arguments with the syntax of another program rewritten to this command's; empty: the
  // command has none.
  std::function<std::vector<std::string>(const std::vector<std::string>&)> rewrite = {};
};

template <class Flags>
struct CallOf : Call {
  explicit CallOf(int (*run)(Flags&, Config&)) : run_(run) {}
  std::vector<Option> flags() override { return options_of(flags_); }
  int run(Config& config) override { return run_(flags_, config); }
  Flags flags_;
  int (*run_)(Flags&, Config&);
};

template <class Flags>
Command command(CommandSpec spec, std::string group, int (*run)(Flags&, Config&)) {
  return {std::move(spec), std::move(group), [run] { return std::make_unique<CallOf<Flags>>(run); }, {}, {}};
}

// Returns a command made of actions. Their names are written in full ("tokenizer encode"); their groups are not used.
inline Command command_of(CommandSpec spec, std::string group, std::vector<Command> actions) {
  return {std::move(spec), std::move(group), nullptr, std::move(actions), {}};
}

// Returns a command that uses the table of all commands, itself included (manual pages, completion, init's demo text).
template <class Flags>
Command command_on_table(CommandSpec spec, std::string group, std::vector<Command> others,
                         int (*run)(Flags&, const std::vector<Command>&)) {
  struct TableCall : Call {
    TableCall(std::vector<Command> table, int (*run)(Flags&, const std::vector<Command>&))
        : table_(std::move(table)), run_(run) {}
    std::vector<Option> flags() override { return options_of(flags_); }
    int run(Config&) override { return run_(flags_, table_); }
    Flags flags_;
    std::vector<Command> table_;
    int (*run_)(Flags&, const std::vector<Command>&);
  };
  Command made{std::move(spec), std::move(group), nullptr, {}, {}};
  made.call = [others = std::move(others), made, run]() -> std::unique_ptr<Call> {
    std::vector<Command> all = others;
    all.push_back(made);
    all.back().call = [run] {
      return std::make_unique<TableCall>(std::vector<Command>{}, run);
    };  // only its flags are read, it is not run
    return std::make_unique<TableCall>(std::move(all), run);
  };
  return made;
}

// The flags of every command that computes: `CommonFlags common;` in the flags and `common.each(v);` in their `each`.
// run_program applies --threads.
struct CommonFlags {
  Backend backend = Backend::cpu;
  int64_t threads = 0;
  template <class V>
  void each(V&& v) {
    v("backend", backend, "backend: cpu, or ref (plain loops in f64: slow, for checks)");
    v("threads", threads, "threads for compute; 0: all cores of this process", between(0, 4096) & same_as("train.threads"));
  }
};

// The flag --model of commands that read model.path. A command declares `ModelFlag model;` in its flags and calls
// `model.each(v);` in their `each`.
struct ModelFlag {
  std::string path;
  template <class V>
  void each(V&& v) {
    v("model", path, "Hugging Face folder: config, weights, tokenizer",
      same_as("model.path") & metavar("DIR") & reads_folder());
  }
};

// Returns the values of all flags of a command, one `name: value` per line. All ranks of a job must have the same text.
template <class Flags>
std::string describe(Flags& flags) {
  std::string text;
  for (const Option& o : options_of(flags)) text += o.key + ": " + o.yaml() + "\n";
  return text;
}

// Throws a UserError if one of `outputs` is also an input of the command (by any spelling), or the file of stdin. `to`
// is the flag that names the outputs. run_program checks every flag that is an output; a command whose flag stands for
// several files calls it for these.
void refuse_inputs(const std::vector<Option>& flags, const std::string& to, const std::vector<std::string>& outputs);

// Runs the command in args (without the program's name) and returns the exit status. Exceptions become a line on stderr
// and a status: UserError 2, Stopped 130, others 1.
int run_program(const std::vector<Command>& commands, const std::vector<std::string>& args);

std::string overview(const std::vector<Command>& commands);  // the text of `ravine` without arguments
// Returns the help page of a command: of `ravine COMMAND --help`, or of `--help-all` if `all` is true.
std::string help_page(const Command& command, bool all);

}  // namespace ravine
