#include "eval/csv_rows.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "files/compressed.h"

namespace ravine {
namespace {

class CsvRowParser {
 public:
  CsvRowParser(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  std::vector<CsvRow> all() {
    std::vector<CsvRow> rows;
    while (pass_blank_lines()) {
      CsvRow row{{}, line_};
      for (;;) {
        row.fields.push_back(peek() == '"' ? quoted() : plain());
        if (peek() != ',') break;
        ++at_;
      }
      pass_line_end();
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : -1; }

  bool pass_line_end() {
    if (text_.substr(at_).starts_with("\r\n")) ++at_;
    if (peek() != '\n') return false;
    ++at_, ++line_;
    return true;
  }
  bool pass_blank_lines() {  // returns false at the end of the text
    while (pass_line_end()) {
    }
    return peek() >= 0;
  }

  std::string plain() {
    const size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    std::string_view field = text_.substr(at_, end - at_);
    at_ = end;
    if (field.ends_with('\r')) field.remove_suffix(1);
    return std::string(field);
  }

  std::string quoted() {
    const int64_t began = line_;
    std::string out;
    for (++at_;;) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) refuse("a quoted field does not end", began);
      const std::string_view piece = text_.substr(at_, quote - at_);
      line_ += std::count(piece.begin(), piece.end(), '\n');
      out += piece;
      at_ = quote + 1;
      if (peek() != '"') break;
      out += '"';
      ++at_;
    }
    if (const int c = peek(); c >= 0 && c != ',' && c != '\n' && !text_.substr(at_).starts_with("\r\n"))
      refuse("text behind a closing quote", line_);
    return out;
  }

  [[noreturn]] void refuse(const std::string& what, int64_t line) const {
    throw UserError("not valid CSV: " + what, fmt::format("{}:{}", path_, line),
                    "a field with a quote, a comma or a line end stands in quotes, and quotes in it are written twice",
                    "download the file again");
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace

std::vector<CsvRow> parse_csv_rows(std::string_view text, const std::string& path) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos)
    throw UserError(fmt::format("byte {} is not UTF-8", bad), path, "benchmarks are text in UTF-8",
                    "convert it: iconv -f GB18030 -t UTF-8 (GB18030 is the Chinese one)");
  return CsvRowParser(text, path).all();
}

std::vector<CsvRow> read_csv_rows(const std::string& path) {
  return parse_csv_rows(read_whole(path, int64_t{256} << 20), path);
}

}  // namespace ravine
