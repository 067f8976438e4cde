#include "apps/turns.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>

#include "apps/named_prompt_models.h"
#include "base/byte_order_mark.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"

namespace ravine {

// The line editor (libedit): keys of Emacs, arrows, and earlier lines. A signal restores the terminal before it is
// handled.
class Turns::Editor {
 public:
  explicit Editor(const std::string& prompt) : prompt_(prompt) {
    std::setlocale(LC_CTYPE, "C.UTF-8");  // defines characters, here only
    history_ = ::history_init();
    line_ = ::el_init("ravine", stdin, stderr, stderr);
    if (!line_ || !history_) return;
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, 1000);
    ::el_set(line_, EL_CLIENTDATA, this);
    ::el_set(
        line_, EL_PROMPT, +[](EditLine* line) {
          void* self = nullptr;
          ::el_get(line, EL_CLIENTDATA, &self);
          return const_cast<char*>(static_cast<Editor*>(self)->prompt_.c_str());
        });
    ::el_set(line_, EL_EDITOR, "emacs");
    ::el_set(line_, EL_SIGNAL, 1);
    ::el_set(line_, EL_HIST, ::history, history_);
  }
  ~Editor() {
    if (line_) ::el_end(line_);
    if (history_) ::history_end(history_);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  std::optional<std::string> next() {
    // Raw mode before the prompt appears: libedit prints the prompt first and leaves canonical mode later. An end of
    // file (Ctrl-D) typed in between would arrive as a '\0', which libedit ignores.
    ::el_set(line_, EL_PREP_TERM, 1);
    int count = 0;
    const char* text = nullptr;
    // A signal that does not end the program ends the call, and leaves the terminal in its earlier mode.
    while (errno = 0, !(text = ::el_gets(line_, &count)) && count < 0 && errno == EINTR) ::el_set(line_, EL_PREP_TERM, 1);
    if (!text || count <= 0) return {};
    std::string line(text, static_cast<size_t>(count));
    HistEvent event;
    if (line.find_first_not_of(" \t\n") != std::string::npos) ::history(history_, &event, H_ENTER, text);
    if (line.ends_with('\n')) line.pop_back();
    return line;
  }
  bool works() const { return line_ && history_; }

 private:
  std::string prompt_;
  EditLine* line_ = nullptr;
  History* history_ = nullptr;
};

Turns::Turns(const std::string& prompt) : prompt_(prompt), terminal_(::isatty(STDIN_FILENO) == 1) {
  if (!terminal_ || !takes_escape_codes(STDERR_FILENO)) return;
  editor_ = std::make_unique<Editor>(prompt);
  if (!editor_->works()) editor_.reset();
}

Turns::~Turns() = default;

std::optional<std::string> Turns::next() {
  std::optional<std::string> line = read_line();
  if (!line) {
    if (terminal_) std::fputc('\n', stderr);
    return {};
  }
  if (first_) drop_byte_order_mark(*line);
  first_ = false;
  if (line->ends_with('\r')) line->pop_back();
  if (find_invalid_utf8(*line) != std::string::npos)
    throw UserError("text is not UTF-8", "stdin", "turns must be UTF-8", kToUtf8);
  return line;
}

std::optional<std::string> Turns::read_line() {
  if (editor_) return editor_->next();
  if (terminal_) std::fputs(prompt_.c_str(), stderr);
  std::string line;
  for (int c; (c = std::fgetc(stdin)) != EOF && c != '\n';) {
    line += static_cast<char>(c);
    if (static_cast<int64_t>(line.size()) > kMostPrompt)
      throw UserError("the line is too long", "stdin", "a turn has at most 1 GiB", "shorten it");
  }
  refuse_unreadable_stdin();
  if (line.empty() && std::feof(stdin)) return {};
  return line;
}

void refuse_unreadable_stdin() {
  if (std::ferror(stdin))
    throw UserError("stdin cannot be read", "stdin", "it must be a file, a pipe or a terminal",
                    "give the text by --prompt, or pipe it in: echo Once upon | ravine generate --prompt - ..");
}

}  // namespace ravine
