// Values of a shell script's variables, and what words with $ in them expand to.
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

// Why something is not known without a shell; empty text: it is known.
struct ShellTrouble {
  std::string text;
  int line = 0;
  explicit operator bool() const { return !text.empty(); }
};

struct ShellValue {
  std::vector<std::string> items = {""};
  bool array = false;
  ShellTrouble trouble;
  bool gone = false;   // by unset
  bool named = false;  // an array with names for its items, declare -A
  std::map<std::string, std::string> names = {};
};

// One word of what a raw word expands to.
struct ExpandedWord {
  std::string text;
  ShellTrouble trouble;
};

class ShellVariables {
 public:
  void set(const std::string& name, ShellValue value);
  void set_item(const std::string& name, int64_t index, const ShellValue& value, bool append);  // NAME[index]=value
  void append(const std::string& name, const ShellValue& value);
  void unset(const std::string& name);                           // also NAME[index]
  size_t bytes() const;                                          // of all values
  std::optional<ShellValue> own(const std::string& name) const;  // as the script has it; nothing: it has none
  void restore(const std::string& name, std::optional<ShellValue> value);
  // A variable of the script or of the environment; one that is in neither is in trouble, or empty with `unset_is_empty`.
  ShellValue get(const std::string& name, int line) const;
  bool is_set(const std::string& name) const;

  // Expands the raw text of a word, which stands at `line`: quotes go, $ is replaced, and unquoted results are split at blanks,
  // so none or several words may come of it. `split`: false in assignments. depth: of the brackets around it; too deep is trouble.
  std::vector<ExpandedWord> expand(std::string_view raw, int line, bool split = true, int depth = 0);
  // The body of a here-document, where quotes are characters.
  ExpandedWord expand_body(std::string_view raw, int line);

  std::string script;                  // $0
  std::vector<std::string> arguments;  // $1, $2, ..
  bool arguments_given = false;        // False: $1 may be a value that somebody forgot
  std::set<std::string> assigned;      // names that the script sets somewhere: unset, they are empty
  bool unset_is_empty = false;         // as in tests of bash; else a slip is told
  std::function<ExpandedWord(const std::string&, int)> substitute = nullptr;  // the value of $( ), by its inside and line

 private:
  std::map<std::string, ShellValue> values_;
};

// The value of an expression in whole numbers, with the operators of C and **; names with or without $, an unset one is 0. Sets what
// the expression assigns: =, +=, ++ and their like.
ExpandedWord arithmetic(std::string_view text, ShellVariables& variables, int line, int depth = 0);
constexpr int kDeepestShell = 32;  // brackets in brackets, functions in functions

// True if the text fits a pattern of bash: * ? [ab] [a-z] [!x], \\ before a character of its own.
bool fits_shell_pattern(std::string_view pattern, std::string_view text);

// Where the ) stands that closes the ( behind text[at - 1]; npos if none does. Quotes and nested pairs are passed over.
size_t closing_bracket(std::string_view text, size_t at, char open, char close);

}  // namespace ravine
