// Values of a shell script's variables, and what words with $ in them expand to.
#pragma once
#include <cstdint>
#include <map>
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
};

// One word of what a raw word expands to.
struct ExpandedWord {
  std::string text;
  ShellTrouble trouble;
};

class ShellVariables {
 public:
  void set(const std::string& name, ShellValue value);
  void append(const std::string& name, const ShellValue& value);
  // A variable of the script or of the environment; one that is in neither is in trouble.
  ShellValue get(const std::string& name, int line) const;
  bool is_set(const std::string& name) const;

  // Expands the raw text of a word, which stands at `line`: quotes go, $ is replaced, and unquoted results are split at blanks,
  // so none or several words may come of it. `split`: false in assignments. depth: of the brackets around it; too deep is trouble.
  std::vector<ExpandedWord> expand(std::string_view raw, int line, bool split = true, int depth = 0) const;
  // The body of a here-document, where quotes are characters.
  ExpandedWord expand_body(std::string_view raw, int line) const;

 private:
  std::map<std::string, ShellValue> values_;
};

// The value of an expression in whole numbers: + - * / % ( ), names with or without $.
ExpandedWord arithmetic(std::string_view text, const ShellVariables& variables, int line, int depth = 0);

// Where the ) stands that closes the ( behind text[at - 1]; npos if none does. Quotes and nested pairs are passed over.
size_t closing_bracket(std::string_view text, size_t at, char open, char close);

}  // namespace ravine
