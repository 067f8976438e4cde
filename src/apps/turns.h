// The turns of a conversation: one line of stdin each. A terminal shows a prompt and has a line editor with history.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace ravine {

constexpr int64_t kMostPrompt = int64_t{1} << 30;  // bytes

// Reads the turns from stdin.
class Turns {
 public:
  explicit Turns(const std::string& prompt);  // printed on stderr, on a terminal
  ~Turns();

  // Returns the next line without its newline, and without a byte order mark in the first one; nothing at the end of
  // input. UserErrors: a line that is not UTF-8 or too long, and a stdin that cannot be read.
  std::optional<std::string> next();
  bool terminal() const { return terminal_; }

 private:
  class Editor;
  std::optional<std::string> read_line();
  std::string prompt_;
  bool terminal_, first_ = true;
  std::unique_ptr<Editor> editor_;  // null without a terminal, or without escape codes
};

// Throws if stdin cannot be read (a folder, a closed descriptor), which is not an end of input.
void refuse_unreadable_stdin();

}  // namespace ravine
