// Progress and messages for a person: on stderr, and in log.txt once the run has a folder. Results are not logged.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace ravine {

// Writes a line to stderr without escaping. Never throws, also if stderr is closed, full or a broken pipe.
void print_stderr(std::string_view line) noexcept;

// Writes lines to stderr and to log.txt. Thread-safe, except for quiet().
class Log {
 public:
  Log();  // writes to stderr; checks if stderr is a terminal
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  // Stores a line that was printed before open(). The line is written to log.txt in front of the next line of the log.
  void note(const std::string& line);
  // Opens the file `path` (log.txt): every further line of the log is appended to it. A link, or a file that is not a
  // plain one, is a UserError. If a later write fails (full disk), one warning is printed and the file lacks the lines.
  void open(const std::string& path);
  void quiet(bool on) { quiet_ = on; }  // no output on stderr; set on ranks other than 0
  template <class... A>
  void line(fmt::format_string<A...> text, A&&... args) {
    write(fmt::format(text, std::forward<A>(args)...));
  }
  template <class... A>
  void warn(fmt::format_string<A...> text, A&&... args) {
    write("warning: " + fmt::format(text, std::forward<A>(args)...));
  }
  // Draws a progress bar on the last line of stderr; does nothing if stderr is not a terminal. `fraction` is the part
  // that is done, in [0, 1]; `text` follows the bar.
  void progress(double fraction, const std::string& text);
  void end_progress();
  bool terminal() const { return terminal_; }

 private:
  void write(const std::string& text);
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  std::string notes_;
  bool terminal_ = false, quiet_ = false, bar_ = false, file_broken_ = false;
};

std::string human_time(double seconds);  // "1h 02m", "3m 20s", "4.2 s"
std::string human_bytes(double bytes);   // "1.5 GiB"
std::string human_count(double count);   // "134.1 M"

}  // namespace ravine
