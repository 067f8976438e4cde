#include "data/instruct/chat_records.h"

#include "base/error.h"

namespace ravine {

namespace {

constexpr size_t kPiece = 1 << 20;
constexpr int64_t kLongest = int64_t{256} << 20;  // bytes of a record

bool is_lines(std::string path) {
  for (const char* suffix : {".gz", ".zst", ".xz"})
    if (path.ends_with(suffix)) path.resize(path.size() - std::string_view(suffix).size());
  return path.ends_with(".jsonl");
}

}  // namespace

ChatRecords::ChatRecords(const std::string& path) : file_(std::make_shared<const std::string>(path)), lines_(is_lines(path)) {
  if (lines_)
    reader_ = std::make_unique<LineReader>(path, kLongest);
  else
    source_ = open_bytes(path);
}

bool ChatRecords::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  size_t had = buffer_.size();
  buffer_.resize(had + kPiece);
  size_t n = source_->read(std::as_writable_bytes(std::span(buffer_).subspan(had)));
  buffer_.resize(had + n);
  return n > 0;
}

int ChatRecords::peek() {
  for (;;) {
    at_ = std::min(buffer_.size(), buffer_.find_first_not_of(" \t\r\n", at_));
    if (at_ < buffer_.size()) return static_cast<unsigned char>(buffer_[at_]);
    if (!fill()) return -1;
  }
}

bool ChatRecords::next(Record& record) {
  record.file = file_;
  record.plain = false;
  return lines_ ? next_line(record) : next_object(record);
}

bool ChatRecords::next_line(Record& record) {
  while (auto line = reader_->next()) {
    if (reader_->line_number() == 1 && line->starts_with("\xEF\xBB\xBF")) line->remove_prefix(3);
    if (line->find_first_not_of(" \t\r") == std::string_view::npos) continue;
    record.body = *line;
    record.number = reader_->line_number();
    return true;
  }
  return false;
}

bool ChatRecords::next_object(Record& record) {
  auto wrong = [&](const char* rule) {
    throw UserError("not valid JSON", fmt::format("{} record {}", *file_, number_ + 1), rule, "correct the file");
  };
  if (done_) return false;
  int c = peek();
  if (!begun_) {
    begun_ = true;
    if (c == 0xEF && (buffer_.size() >= 3 || fill()) && std::string_view(buffer_).substr(at_).starts_with("\xEF\xBB\xBF")) {
      at_ += 3;
      c = peek();
    }
    if (c == '[') {
      list_ = true;
      take();
      c = peek();
    }
  } else if (c == ',') {
    if (!list_) wrong("objects that stand one after another have no commas between them");
    take();
    if ((c = peek()) == ']') wrong("a comma must be followed by a record");
  } else if (list_ && c != ']') {
    wrong(c < 0 ? "the list is not closed" : "records are parted by commas");
  }
  if (list_ && c == ']') {
    take();
    if (peek() >= 0) wrong("something stands behind the list");
    done_ = true;
    return false;
  }
  if (c < 0) {
    if (list_) wrong("the list is not closed");
    done_ = true;
    return false;
  }
  if (c != '{') wrong("a record is an object");
  ++number_;
  bool text = false, escaped = false;
  int64_t depth = 0;
  for (size_t end = at_;; ++end) {
    if (end == buffer_.size()) {
      if (static_cast<int64_t>(end - at_) > kLongest)
        throw UserError("a record is too long", fmt::format("{} record {}", *file_, number_), "at most 256 MiB", "split it");
      size_t had = end - at_;
      if (!fill()) --number_, wrong("the file ends within a record");
      end = had;
    }
    char b = buffer_[end];
    if (text) {
      text = escaped || b != '"';
      escaped = !escaped && b == '\\';
    } else if (b == '"') {
      text = true;
    } else if (b == '{' || b == '[') {
      ++depth;
    } else if ((b == '}' || b == ']') && --depth == 0) {
      record.body.assign(buffer_, at_, end + 1 - at_);
      record.number = number_;
      at_ = end + 1;
      return true;
    }
  }
}

}  // namespace ravine
