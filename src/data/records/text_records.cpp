// Reads .txt and .jsonl by lines. Also the text window of the other readers.
#include <algorithm>
#include <filesystem>

#include "base/byte_order_mark.h"
#include "base/error.h"
#include "base/shell_word.h"
#include "data/records/readers.h"

namespace ravine {

namespace {

double share(int64_t done, int64_t size) {
  return size > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(size)) : 1.0;
}

class LineRecords final : public RecordReader {
 public:
  LineRecords(const std::string& path, const RecordOptions& o, bool json)
      : file_(std::make_shared<const std::string>(path)), lines_(path, o.max_record), size_(size_of_file(path)), json_(json) {}
  bool next(Record& record) override {
    while (auto line = lines_.next()) {
      if (lines_.line_number() == 1) line = without_byte_order_mark(*line);
      const size_t begin = line->find_first_not_of(" \t\r");
      if (json_ && begin == std::string_view::npos) continue;
      if (json_ && !begun_) refuse_list(line->substr(begin));
      begun_ = true;
      if (!json_ && line->ends_with('\r')) line->remove_suffix(1);
      if (line->empty()) continue;
      record.body.assign(*line);
      record.plain = !json_;
      record.file = file_;
      record.number = lines_.line_number();
      return true;
    }
    return false;
  }
  double done() const override { return share(lines_.source().consumed(), size_); }

 private:
  // Throws a UserError if a file of lines holds one JSON value over several lines.
  void refuse_list(std::string_view first) const {
    const size_t second = first.find_first_not_of(" \t\r", 1);
    const bool list = first[0] == '[' && (second == std::string_view::npos || first[second] == '{'),
               object = first[0] == '{' && second == std::string_view::npos;
    if (!list && !object) return;
    std::string name = *file_;
    if (const size_t at = name.rfind(".jsonl"); at != std::string::npos) name.erase(at + 5, 1);
    throw UserError(
        list ? "a list of JSON in a .jsonl file" : "an object of JSON over several lines in a .jsonl file",
        fmt::format("{}:{}", *file_, lines_.line_number()), "each line must hold one whole JSON object",
        fmt::format("a list, or objects over several lines, are named .json: mv {} {}", shell_word(*file_), shell_word(name)));
  }

  std::shared_ptr<const std::string> file_;
  LineReader lines_;
  int64_t size_;
  bool json_, begun_ = false;
};

class WholeText final : public RecordReader {
 public:
  WholeText(const std::string& path, const RecordOptions& o) : path_(path), max_(o.max_record) {}
  bool next(Record& record) override {
    if (done_) return false;
    done_ = true;
    record.body = read_whole(path_, max_);
    if (record.body.starts_with(kByteOrderMark)) record.body.erase(0, kByteOrderMark.size());
    record.plain = true;
    record.file = std::make_shared<const std::string>(path_);
    record.number = 1;
    return true;
  }
  double done() const override { return done_ ? 1 : 0; }

 private:
  std::string path_;
  int64_t max_;
  bool done_ = false;
};

}  // namespace

int64_t size_of_file(const std::string& path) {
  std::error_code ec;
  const auto size = std::filesystem::file_size(path, ec);
  return ec ? 0 : static_cast<int64_t>(size);
}

std::unique_ptr<RecordReader> open_text_records(const std::string& path, const RecordOptions& options) {
  if (options.whole_text) return std::make_unique<WholeText>(path, options);
  return std::make_unique<LineRecords>(path, options, false);
}

std::unique_ptr<RecordReader> open_jsonl_records(const std::string& path, const RecordOptions& options) {
  return std::make_unique<LineRecords>(path, options, true);
}

TextWindow::TextWindow(const std::string& path, int64_t max_record)
    : path_(path), source_(open_bytes(path)), max_record_(max_record), size_(size_of_file(path)) {
  more(0);
  if (buffer_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

bool TextWindow::more(size_t ahead) {
  constexpr size_t kPiece = size_t{1} << 18;
  while (!at_end_ && at_ + ahead >= buffer_.size()) {
    if (static_cast<int64_t>(buffer_.size() - at_) > max_record_)
      throw UserError("record is too long", fmt::format("{}:{}", path_, line_), fmt::format("at most {} bytes", max_record_),
                      "check that brackets and quotes are closed");
    if (at_ > kPiece || at_ == buffer_.size()) buffer_.erase(0, at_), at_ = 0;
    const size_t had = buffer_.size(), piece = std::max(kPiece, had);
    buffer_.resize(had + piece);
    const size_t n = source_->read(std::as_writable_bytes(std::span(buffer_).subspan(had)));
    at_end_ = n < piece;
    buffer_.resize(had + n);
  }
  return at_ + ahead < buffer_.size();
}

void TextWindow::skip(size_t n) {
  line_ += std::count(buffer_.begin() + static_cast<ptrdiff_t>(at_), buffer_.begin() + static_cast<ptrdiff_t>(at_ + n), '\n');
  at_ += n;
}

double TextWindow::done() const { return share(source_->consumed(), size_); }

}  // namespace ravine
