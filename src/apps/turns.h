// Turns of a conversation, one per line of stdin. On a terminal they are asked for, and may be edited and called back.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace ravine {

constexpr int64_t kMostPrompt = int64_t{1} << 30;  // bytes

class Turns {
 public:
  explicit Turns(const std::string& prompt);  // shown on a terminal, on stderr
  ~Turns();

  // A line without its newline, nor a byte order mark before the first; nothing at the end of input. One that is no UTF-8 or too
  // long, and a stdin that cannot be read, are UserErrors.
  std::optional<std::string> next();
  bool terminal() const { return terminal_; }

 private:
  class Editor;
  std::optional<std::string> read_line();
  std::string prompt_;
  bool terminal_, first_ = true;
  std::unique_ptr<Editor> editor_;  // null: no terminal, or one that takes no escape codes
};

// The end of stdin and what cannot be read (a folder, a closed descriptor) are two things.
void refuse_unreadable_stdin();

}  // namespace ravine
