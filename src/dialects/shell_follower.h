// The class that follows a shell script (dialects/shell_run.h).
#pragma once
#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/shell_script.h"
#include "dialects/shell_tree.h"
#include "dialects/shell_value.h"

namespace ravine {

constexpr int kMostShellLevels = 600;         // largest nesting of commands, over all scripts
constexpr int64_t kMostShellSteps = 200'000;  // largest number of commands that are followed, over all scripts

// Follows one shell script without running it, and holds its variables and functions. A script that it starts is
// followed by another ShellFollower with a larger `depth`.
class ShellFollower {
 public:
  // The result of a followed command. assumed: a program that is not run, and is expected to succeed. unknown: the
  // result cannot be known without a shell.
  enum class Status : uint8_t { ok, failed, assumed, unknown };

  ShellFollower(LaunchScript& out, const std::string& name, const ShellArguments& arguments, int depth);

  Status follow(std::string_view text, int line = 1);

 private:
  // Collects the names of the variables that a command sets anywhere in it. Before such a variable is set it is empty;
  // other unset variables have a trouble (ShellProblem).
  void note_assigned(const ShellNode& n);

  Status run(const ShellNode& n);

  std::string location(int line) const { return fmt::format("{}:{}", name_, line); }
  bool stopped() const { return ended_ || returns_ || breaks_ > 0 || continues_ > 0; }

  // Follows a command of which only a shell could tell if it runs. The variables that it sets and the commands that it
  // starts get a trouble (ShellProblem).
  Status in_doubt(const ShellNode& n);

  Status sequence(const ShellNode& n);

  Status condition(const ShellNode& n);

  // Follows one iteration of a loop. Returns false if the loop ends.
  bool turn(const ShellNode& body);

  Status loop(const ShellNode& n);

  // Expands a word: a word {1..8} to its numbers, any other word by expanded().
  std::vector<ExpandedWord> expanded_braces(const ShellWord& w);
  ExpandedWord first_of(const std::string& raw, int line);

  Status counted(const ShellNode& n);

  Status repeated(const ShellNode& n);

  Status chosen(const ShellNode& n);

  Status tested(const std::vector<ShellWord>& words, bool patterns);

  std::vector<ExpandedWord> expanded(const ShellWord& word, bool splits = true);
  void spend(size_t bytes, int line);  // counts the bytes of expanded words; above 16 MiB a UserError

  void assign(const std::string& name, ShellValue value, bool append, int line);

  // Follows an assignment: NAME=value, NAME+=value, NAME=( .. ) or NAME[i]=value. Returns the name of the variable.
  std::string assignment(const ShellWord& w);

  std::string named_items(const ShellWord& w, const std::string& name, ShellValue had);

  // Stores the value of an exported variable in the environment of the script's programs.
  void exported(const std::string& name, int line);

  Status simple(const ShellNode& n);

  Status declaration(const ShellNode& n, size_t first, const std::string& keyword);

  // Follows a command that is a builtin of bash or another script. Returns its result; nothing if it is a program.
  std::optional<Status> builtin(ScriptCommand& words, const ShellNode& n);

  Status shift(const std::string& by, int line);

  Status set_arguments(const ScriptCommand& words, size_t at);
  // Follows read -r A B <<< TEXT. Returns false if its input is not known.
  bool read_words(const ScriptCommand& words, size_t at, const ShellNode& n);

  Status call(const ShellNode& body, const ScriptCommand& words, size_t at, int line);

  Status evaluated(const ScriptCommand& words, size_t at, int line);

  // Returns the text of a file; nothing if it is missing. Its bytes count as bytes of expanded words.
  std::optional<std::string> text_of_file(const ScriptWord& w);

  Status sourced(const ScriptCommand& words, size_t at);

  // Follows another script, which sees the exported variables: bash FILE WORDS, bash -c TEXT or ./FILE.sh. Returns its
  // result; nothing if the command starts no script.
  std::optional<Status> other_script(const ScriptCommand& words, size_t at);

  // Stores the file that `cat <<END > FILE` or `echo TEXT > FILE` would write.
  void files_written(const ScriptCommand& words, const ShellNode& n);

  // Returns the output of the commands inside $( ); with a trouble if it is not known.
  ExpandedWord substituted(const std::string& inside, int line);

  // True if the command is known to fail: cat of a missing file.
  bool fails(const ShellNode& n, const std::string& folder);
  std::optional<std::string> output_of(const ShellNode& n, std::string& folder, const std::string& input,
                                       ShellProblem& problem);

  LaunchScript& out_;
  std::string name_;
  int depth_ = 0, doubt_ = 0, breaks_ = 0;
  int judged_ = 0;                          // number of enclosing conditions, in which set -e does not end the script
  bool errexit_ = false, nounset_ = false;  // set -e, set -u
  std::string separators_ = " \t\n";        // IFS before a read
  std::vector<std::map<std::string, std::optional<ShellValue>>> locals_;  // values before `local`, for each call
  bool ended_ = false, returns_ = false;
  int continues_ = 0;  // of `continue N`: it ends N - 1 loops, and continues the next
  ShellVariables variables_;
  std::set<std::string> exports_;
  std::map<std::string, ShellNodePtr> functions_;
};

}  // namespace ravine
