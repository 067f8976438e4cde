// The follower of a shell script (dialects/shell_run.h): one for each script, with its variables and functions.
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

constexpr int kMostShellLevels = 600;         // commands in commands, of all scripts together
constexpr int64_t kMostShellSteps = 200'000;  // commands that are followed

class ShellFollower {
 public:
  // How a command ended. `assumed`: a program that is expected to succeed; `unknown`: it decides what only a shell can tell.
  enum class Status : uint8_t { ok, failed, assumed, unknown };

  ShellFollower(LaunchScript& out, const std::string& name, const ShellArguments& arguments, int depth);

  Status follow(std::string_view text, int line = 1);

 private:
  // Names that the script sets anywhere: where it did not, they are empty, and no slip.
  void note_assigned(const ShellNode& n);

  Status run(const ShellNode& n);

  std::string place(int line) const { return fmt::format("{}:{}", name_, line); }
  bool stopped() const { return ended_ || returns_ || breaks_ > 0 || continues_ > 0; }

  // Follows what may or may not run.
  Status in_doubt(const ShellNode& n);

  Status sequence(const ShellNode& n);

  Status condition(const ShellNode& n);

  // One turn of a loop; false: the loop ends.
  bool turn(const ShellNode& body);

  Status loop(const ShellNode& n);

  // {1..8}, beside quotes and $ left as it is.
  std::vector<ExpandedWord> expanded_braces(const ShellWord& w);
  ExpandedWord first_of(const std::string& raw, int line);

  Status counted(const ShellNode& n);

  Status repeated(const ShellNode& n);

  Status chosen(const ShellNode& n);

  Status tested(const std::vector<ShellWord>& words, bool patterns);

  std::vector<ExpandedWord> expanded(const ShellWord& word, bool splits = true);
  void spend(size_t bytes, int line);  // a UserError beyond 16 MiB

  void assign(const std::string& name, ShellValue value, bool append, int line);

  // NAME=value, NAME+=value, NAME=( .. ), NAME[i]=value. Returns the name.
  std::string assignment(const ShellWord& w);

  std::string named_items(const ShellWord& w, const std::string& name, ShellValue had);

  // A value that the programs of the script see.
  void exported(const std::string& name, int line);

  Status simple(const ShellNode& n);

  Status declaration(const ShellNode& n, size_t first, const std::string& keyword);

  // Follows a command that the shell runs itself; nothing if it is a program.
  std::optional<Status> builtin(ScriptCommand& words, const ShellNode& n);

  Status shift(const std::string& by, int line);

  Status set_arguments(const ScriptCommand& words, size_t at);
  // read -r A B <<< TEXT; false: what it reads is not known.
  bool read_words(const ScriptCommand& words, size_t at, const ShellNode& n);

  Status call(const ShellNode& body, const ScriptCommand& words, size_t at, int line);

  Status evaluated(const ScriptCommand& words, size_t at, int line);

  // Another file that a word names, where it is there. Its bytes count among those that words expand to.
  std::optional<std::string> text_of_file(const ScriptWord& w);

  Status sourced(const ScriptCommand& words, size_t at);

  // bash FILE WORDS, bash -c TEXT, ./FILE.sh: a script within this one, which sees what is exported.
  std::optional<Status> other_script(const ScriptCommand& words, size_t at);

  // Notes the file that `cat <<END > FILE` or `echo TEXT > FILE` would write.
  void files_written(const ScriptCommand& words, const ShellNode& n);

  // The value of $( ).
  ExpandedWord substituted(const std::string& inside, int line);

  // True if the command is known to fail: cat of a file that is not there.
  bool fails(const ShellNode& n, const std::string& folder);
  std::optional<std::string> output_of(const ShellNode& n, std::string& folder, const std::string& input,
                                       ShellTrouble& trouble);

  LaunchScript& out_;
  std::string name_;
  int depth_ = 0, doubt_ = 0, breaks_ = 0;
  int judged_ = 0;                                                        // conditions around, whose failure ends nothing
  bool errexit_ = false, nounset_ = false;                                // set -e, set -u
  std::string separators_ = " \t\n";                                      // IFS before a read
  std::vector<std::map<std::string, std::optional<ShellValue>>> locals_;  // values before `local`, of each call
  bool ended_ = false, returns_ = false;
  int continues_ = 0;  // loops that a continue goes on with
  ShellVariables variables_;
  std::set<std::string> exports_;
  std::map<std::string, ShellNodePtr> functions_;
};

}  // namespace ravine
