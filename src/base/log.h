// Progress and messages for a person: to stderr, and to log.txt once a run has a folder. Results never go here.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace ravine {

// A line for a person on stderr, as it is. Never throws: a stderr that is closed, full or read by nobody ends nothing.
void say(std::string_view line) noexcept;

class Log {
 public:
  Log();  // to stderr; asks whether it is a terminal
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  // A line that was said before there was a file: the next one that is opened begins with it.
  void note(const std::string& line);
  // Appends every line to this file too. If it cannot be written later on (full disk), that is said once, and the lines it
  // lacks are lost.
  void open(const std::string& path);
  void quiet(bool on) { quiet_ = on; }  // ranks other than 0
  template <class... A>
  void line(fmt::format_string<A...> text, A&&... args) {
    write(fmt::format(text, std::forward<A>(args)...));
  }
  template <class... A>
  void warn(fmt::format_string<A...> text, A&&... args) {
    write("warning: " + fmt::format(text, std::forward<A>(args)...));
  }
  // A bar that stays on the last line of a terminal; without a terminal nothing is shown. `fraction` in [0, 1].
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
