// The log on a terminal, as the terminal shows it. The terminal gets narrower or wider while a progress bar is shown,
// and wraps its lines again or not.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace ravine {
namespace test_log {

// A terminal with the control codes that the log uses. A row that continues a long line is marked (`continued`), as in
// terminals.
class Screen {
 public:
  Screen(size_t columns, bool rewraps) : columns_(columns), rewraps_(rewraps), rows_(1) {}

  void show(const std::string& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const char c = bytes[i];
      if (c == '\r') {
        column_ = 0;
      } else if (c == '\n') {
        next_row(false);  // the tty puts a \r before it
      } else if (c == '\033') {
        ASSERT_LT(i + 2, bytes.size());
        ASSERT_EQ(bytes[i + 1], '[');
        const char what = bytes[i += 2];
        ASSERT_TRUE(what == 'K' || what == 'J') << what;
        std::string& text = rows_[row_].text;
        if (text.size() > column_) text.resize(column_);
        if (what == 'J') rows_.resize(row_ + 1);
      } else {
        if (column_ == columns_) next_row(true);
        std::string& text = rows_[row_].text;
        if (text.size() <= column_) text.resize(column_ + 1, ' ');
        text[column_++] = c;
      }
    }
  }
  void resize(size_t columns) {
    if (rewraps_) rewrap(columns);
    columns_ = columns;
    column_ = std::min(column_, columns_ - 1);
    if (!rewraps_)
      for (Row& r : rows_)
        if (r.text.size() > columns_) r.text.resize(columns_);
  }
  std::vector<std::string> text() const {
    std::vector<std::string> out;
    for (const Row& r : rows_) out.push_back(r.text);
    return out;
  }
  int bars() const {
    int n = 0;
    for (const Row& r : rows_) n += r.text.find('#') != std::string::npos || r.text.find("..") != std::string::npos;
    return n;
  }

 private:
  struct Row {
    std::string text;
    bool continued = false;
  };
  void next_row(bool continued) {
    if (continued) column_ = 0;
    if (++row_ == rows_.size()) rows_.push_back({"", continued});
  }
  void rewrap(size_t columns) {
    std::vector<Row> out;
    size_t row = 0, column = 0;
    for (size_t i = 0; i < rows_.size();) {
      std::string line;
      size_t cursor = std::string::npos;
      do {
        if (i == row_) cursor = line.size() + column_;
        line += rows_[i++].text;
      } while (i < rows_.size() && rows_[i].continued);
      for (size_t at = 0; at == 0 || at < line.size(); at += columns) {
        if (cursor != std::string::npos && cursor >= at) row = out.size(), column = cursor - at;
        out.push_back({line.substr(at, columns), at > 0});
      }
    }
    rows_ = out;
    row_ = row;
    column_ = column;
  }
  size_t columns_;
  bool rewraps_;
  std::vector<Row> rows_;
  size_t row_ = 0, column_ = 0;
};

class LogOnTerminal : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    ASSERT_EQ(::openpty(&master_, &slave_, nullptr, nullptr, nullptr), 0);
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
    std::fflush(stderr);
    kept_ = ::dup(2);
    ::dup2(slave_, 2);
  }
  void TearDown() override {
    std::fflush(stderr);
    ::dup2(kept_, 2);
    for (int fd : {master_, slave_, kept_}) ::close(fd);
  }
  void columns(unsigned short n) const {
    winsize w{};
    w.ws_row = 24, w.ws_col = n;
    ::ioctl(slave_, TIOCSWINSZ, &w);
  }
  std::string sent() const {
    std::fflush(stderr);
    // Output arrives with a delay: all of it has arrived when the end mark arrives.
    constexpr char kEnd = '\001';
    EXPECT_EQ(::write(slave_, &kEnd, 1), 1);
    std::string out;
    for (pollfd ready{master_, POLLIN, 0}; !out.ends_with(kEnd) && ::poll(&ready, 1, 10000) > 0;) {
      char some[4096];
      const ssize_t n = ::read(master_, some, sizeof some);
      if (n > 0) out.append(some, static_cast<size_t>(n));
    }
    EXPECT_TRUE(out.ends_with(kEnd)) << out;
    if (out.ends_with(kEnd)) out.pop_back();
    return out;
  }
  int master_ = -1, slave_ = -1, kept_ = -1;
};

constexpr const char* kText = "12/1000  loss 5.432  left 1h 02m, and some more words";

TEST_P(LogOnTerminal, ANarrowerWindowKeepsNoBar) {
  for (size_t narrow : {60u, 41u, 25u, 13u}) {
    columns(100);
    Screen screen(100, GetParam());
    Log log;
    log.line("first");
    log.progress(0.5, kText);
    screen.show(sent());
    EXPECT_EQ(screen.bars(), 1);
    columns(static_cast<unsigned short>(narrow));
    screen.resize(narrow);
    log.progress(0.6, kText);
    screen.show(sent());
    EXPECT_EQ(screen.bars(), 1) << narrow << " columns: " << testing::PrintToString(screen.text());
    columns(static_cast<unsigned short>(narrow - 3));
    screen.resize(narrow - 3);
    log.line("second");
    screen.show(sent());
    EXPECT_EQ(screen.bars(), 0) << narrow << " columns: " << testing::PrintToString(screen.text());
    log.progress(0.7, kText);
    screen.show(sent());
    columns(120);
    screen.resize(120);
    log.progress(0.8, kText);
    screen.show(sent());
    EXPECT_EQ(screen.bars(), 1) << testing::PrintToString(screen.text());
    log.end_progress();
    screen.show(sent());
    const std::vector<std::string> left = screen.text();
    EXPECT_EQ(screen.bars(), 0);
    ASSERT_GE(left.size(), 2u);
    EXPECT_EQ(left[0], "first") << "no line is lost";
    EXPECT_EQ(left[1], "second");
  }
}

INSTANTIATE_TEST_SUITE_P(TerminalsThatWrapAnewOrNot, LogOnTerminal, testing::Bool());

TEST_F(LogOnTerminal, ADumbTerminalGetsLinesOnly) {
  setenv("TERM", "dumb", 1);
  Log log;
  log.progress(0.5, kText);
  log.line("a line");
  log.end_progress();
  EXPECT_EQ(sent(), "a line\r\n");
}

}  // namespace test_log
}  // namespace ravine
