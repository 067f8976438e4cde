#include "base/log.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"

namespace ravine {

void print_stderr(std::string_view line) noexcept {
  try {
    const std::string text = std::string(line) + "\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
  } catch (...) {  // no memory for a copy
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
}

namespace {

// The cursor stays at the beginning of the bar. If a terminal became narrower, it has wrapped the bar below the cursor.
// The code clears all these rows.
constexpr const char* kClearBar = "\r\033[J";

}  // namespace

Log::Log() : terminal_(takes_escape_codes(STDERR_FILENO)) {}

Log::~Log() {
  end_progress();
  if (file_) std::fclose(file_);
}

void Log::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  struct stat s;
  if ((fd < 0 && errno == ELOOP) || (fd >= 0 && (::fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_nlink > 1))) {
    if (fd >= 0) ::close(fd);
    throw UserError("cannot write the log", path, "it must be a plain file, not a link or a device",
                    "remove it, or choose another train.output");
  }
  std::FILE* f = fd < 0 ? nullptr : ::fdopen(fd, "a");
  if (!f && (errno == ENOSPC || errno == EDQUOT)) fail("cannot write the log '{}': no room left on the disk", path);
  if (!f) throw UserError("cannot write the log", path, "the folder must be writable", "choose another train.output");
  std::lock_guard lock(mutex_);
  if (file_) std::fclose(file_);
  file_ = f;
}

void Log::note(const std::string& line) {
  std::lock_guard lock(mutex_);
  notes_ += escaped(line, "\n\t") + "\n";
}

void Log::write(const std::string& text) {
  const std::string line = escaped(text, "\n\t");
  std::lock_guard lock(mutex_);
  if (!quiet_) {
    std::fputs(((bar_ ? kClearBar : "") + line + "\n").c_str(), stderr);
    bar_ = false;
  }
  if (file_) {
    std::fputs(notes_.c_str(), file_);
    notes_.clear();
    std::fputs((line + "\n").c_str(), file_);
    if (std::fflush(file_) == 0 && !std::ferror(file_)) return;
    std::clearerr(file_);
    if (!file_broken_ && !quiet_)
      std::fputs("warning: log.txt cannot be written, it will lack lines: is the disk full?\n", stderr);
    file_broken_ = true;
  }
}

void Log::progress(double fraction, const std::string& text) {
  if (!terminal_ || quiet_) return;
  winsize w{};
  int columns = ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
  int width = std::max(10, std::min(30, columns - static_cast<int>(text.size()) - 10));
  int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  std::string bar = "[" + std::string(full, '#') + std::string(width - full, '.') + "] " + escaped(text);
  bar.resize(std::min<size_t>(bar.size(), static_cast<size_t>(columns - 1)));  // the last column would wrap
  std::lock_guard lock(mutex_);
  std::fputs(("\r" + bar + "\033[J\r").c_str(), stderr);
  bar_ = true;
}

void Log::end_progress() {
  std::lock_guard lock(mutex_);
  if (bar_) std::fputs(kClearBar, stderr);
  bar_ = false;
}

std::string human_time(double s) {
  if (!std::isfinite(s) || s < 0) return "?";
  if (s < 9.95) return fmt::format("{:.1f} s", s);
  int64_t t = std::llround(s);
  if (t < 60) return fmt::format("{} s", t);
  if (t < 3600) return fmt::format("{}m {:02}s", t / 60, t % 60);
  if (t < 86400) return fmt::format("{}h {:02}m", t / 3600, t / 60 % 60);
  return fmt::format("{}d {:02}h", t / 86400, t / 3600 % 24);
}

std::string human_bytes(double b) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  while (std::abs(b) >= (u == 0 ? 1023.5 : 1023.95) && u < 4) b /= 1024, ++u;  // 1023.95 would be printed as 1024.0
  return u == 0 ? fmt::format("{:.0f} B", b) : fmt::format("{:.1f} {}", b, units[u]);
}

std::string human_count(double n) {
  const char* units[] = {"", " k", " M", " G", " T"};
  int u = 0;
  while (std::abs(n) >= (u == 0 ? 999.5 : 999.95) && u < 4) n /= 1000, ++u;  // 999.95 would be printed as 1000.0
  return u == 0 ? fmt::format("{:.0f}", n) : fmt::format("{:.1f}{}", n, units[u]);
}

}  // namespace ravine
