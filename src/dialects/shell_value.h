// The variables of a shell script, and the expansion of words with $.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// The reason why a value in a script is not known without a shell, and its line. Empty text: the value is known.
struct ShellProblem {
  std::string text;
  int line = 0;
  explicit operator bool() const { return !text.empty(); }
};

// The value of a variable of a script; it has one item unless it is an array.
struct ShellValue {
  std::vector<std::string> items = {""};
  bool array = false;
  ShellProblem problem;
  bool gone = false;   // true: the script has removed the variable by unset
  bool named = false;  // true: an associative array (declare -A), with its items in `names`
  std::map<std::string, std::string> names = {};
};

// A word that the expansion of a written word gives; its text is not valid if it has a trouble.
struct ExpandedWord {
  std::string text;
  ShellProblem problem;
};

// The variables of a script. A variable that the script does not set has its value in the environment of this process.
class ShellVariables {
 public:
  void set(const std::string& name, ShellValue value);
  void set_item(const std::string& name, int64_t index, const ShellValue& value, bool append);  // NAME[index]=value
  void append(const std::string& name, const ShellValue& value);
  void unset(const std::string& name);                           // also NAME[index]
  size_t bytes() const;                                          // bytes of all values
  std::optional<ShellValue> own(const std::string& name) const;  // the script's own value; nothing if it sets none
  void restore(const std::string& name, std::optional<ShellValue> value);
  // Returns the value of a variable of the script or of the environment. The value of an unset variable is empty if
  // `unset_is_empty`, or if the script sets it anywhere; else it has a trouble.
  ShellValue get(const std::string& name, int line) const;
  bool is_set(const std::string& name) const;

  // Expands the text of a word as written at `line`: removes quotes, replaces $, and splits unquoted results at blanks.
  // The result has any number of words. split: false does not split, as in assignments. depth: the number of enclosing
  // brackets; too many are a trouble.
  std::vector<ExpandedWord> expand(std::string_view raw, int line, bool split = true, int depth = 0);
  // Expands the text of a here-document, in which quotes are plain characters.
  ExpandedWord expand_body(std::string_view raw, int line);

  std::string script;                  // $0
  std::vector<std::string> arguments;  // $1, $2, ..
  bool arguments_given = false;        // false: an unset $1 is a trouble
  std::set<std::string> assigned;      // names that the script sets anywhere: they are empty before
  bool unset_is_empty = false;         // an unset variable is empty, as in tests; else a trouble
  std::function<ExpandedWord(const std::string&, int)> substitute = nullptr;  // the value of $( )

 private:
  std::map<std::string, ShellValue> values_;
};

// Returns the value of an arithmetic expression of bash, in whole numbers, with the operators of C and **. Names may
// have a $. The value of an unset name is 0. Assignments in the expression (=, +=, ++ and the like) set variables.
ExpandedWord arithmetic(std::string_view text, ShellVariables& variables, int line, int depth = 0);
constexpr size_t kLongestShellWord = size_t{1} << 17;  // most bytes of a word: as many as Linux passes to a program
constexpr int kDeepestShell = 32;                      // largest nesting of brackets, of functions, and of scripts

// True if the text matches a pattern of bash: * ? [ab] [a-z] [!x], and \\ before a literal character.
bool fits_shell_pattern(std::string_view pattern, std::string_view text);

// Returns the index of the bracket `close` that closes the bracket `open` at text[at - 1]; npos if there is none.
// Quotes and nested pairs are skipped.
size_t closing_bracket(std::string_view text, size_t at, char open, char close);

}  // namespace ravine
