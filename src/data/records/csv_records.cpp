// Reads .csv by RFC 4180, with lines ended by LF or CRLF.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "data/instruct/conversation.h"
#include "data/records/readers.h"
#include "files/safetensors.h"

namespace ravine {

namespace {

constexpr size_t kMostColumns = 65536;

class CsvRecords final : public RecordReader {
 public:
  CsvRecords(const std::string& path, const RecordOptions& o)
      : file_(std::make_shared<const std::string>(path)), text_(path, o.max_record) {
    if (!row()) refuse("no header", "the first line must name the columns");
    std::unordered_set<std::string_view> seen, wanted(o.fields.begin(), o.fields.end());
    for (const std::string& name : fields_) {
      if (!seen.insert(name).second) refuse(fmt::format("column '{}' twice", printable(name)), "columns have different names");
      keep_.push_back(wanted.empty() || wanted.contains(name));
      names_.emplace_back();
      append_json_string(names_.back(), name);
    }
    for (const std::string& name : o.fields)
      if (!seen.contains(name)) {
        for (const auto& [by, called] : {std::pair(';', "semicolons"), std::pair('\t', "tabs")})
          if (fields_.size() == 1 && fields_[0].find(by) != std::string::npos)
            throw UserError(fmt::format("{} between the fields", called), text_.path() + ":1",
                            "a .csv has commas between its fields", "save the table again with commas between the fields");
        Json row = Json::object();
        for (const std::string& column : fields_) row[column] = "";
        refuse_chat_slip(row, text_.path() + ":1");
        const std::string near = nearest(name, fields_);
        throw UserError(fmt::format("no column '{}'", name), text_.path() + ":1",
                        fmt::format("the header names {}", printable(fmt::format("{}", fmt::join(fields_, ", ")))),
                        name_field(o.option_name, near.empty() ? "COLUMN" : near) + ", the column that holds the text");
      }
  }

  bool next(Record& record) override {
    if (!row()) return false;
    if (fields_.size() != names_.size())
      refuse(counted(static_cast<int64_t>(fields_.size()), "field"), fmt::format("the header names {} columns", names_.size()));
    record.body = "{";
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!keep_[i]) continue;
      if (record.body.size() > 1) record.body += ',';
      record.body += names_[i];
      record.body += ':';
      append_json_string(record.body, fields_[i]);
    }
    record.body += '}';
    record.plain = false;
    record.file = file_;
    record.number = line_;
    return true;
  }
  double done() const override { return text_.done(); }

 private:
  // Reads the fields of the next line that is not blank; false at the end.
  bool row() {
    while (text_.peek() == '\n' || (text_.peek() == '\r' && text_.peek(1) == '\n')) text_.skip(text_.peek() == '\n' ? 1 : 2);
    if (text_.peek() < 0) return false;
    line_ = text_.line();
    fields_.clear();
    for (;;) {
      if (names_.empty() && fields_.size() >= kMostColumns)
        refuse("too many columns", fmt::format("a table has at most {}", kMostColumns));
      if (!names_.empty() && fields_.size() >= names_.size())
        refuse(fmt::format("more than {} fields", names_.size()), fmt::format("the header names {} columns", names_.size()));
      fields_.emplace_back();
      field(fields_.back());
      const int c = text_.peek();
      if (c == ',') {
        text_.skip(1);
        continue;
      }
      if (c >= 0) text_.skip(c == '\r' ? 2 : 1);
      return true;
    }
  }

  // Reads one field. It ends before a comma, a line end or the end of the file.
  void field(std::string& out) {
    if (text_.peek() == '"') {
      text_.skip(1);
      for (;;) {
        size_t n = 0;
        while (text_.peek(n) >= 0) {
          const size_t quote = text_.rest().find('"', n);
          n = quote == std::string_view::npos ? text_.rest().size() : quote;
          if (quote != std::string_view::npos) break;
        }
        if (text_.peek(n) < 0) refuse("a quoted field does not end", "a field that begins with a quote ends with one");
        out.append(text_.view(n));
        text_.skip(n + 1);
        if (text_.peek() != '"') break;
        out += '"';
        text_.skip(1);
      }
      if (const int c = text_.peek(); c >= 0 && c != ',' && c != '\n' && !(c == '\r' && text_.peek(1) == '\n'))
        refuse("text behind a closing quote", "a quote inside a quoted field is written twice");
      return;
    }
    size_t n = 0;
    for (int c; (c = text_.peek(n)) >= 0 && c != ',' && c != '\n' && !(c == '\r' && text_.peek(n + 1) == '\n');) ++n;
    out.assign(text_.view(n));
    text_.skip(n);
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& rule) const {
    throw UserError("not valid CSV: " + what, fmt::format("{}:{}", text_.path(), std::max<int64_t>(line_, 1)), rule,
                    "write the file again with a CSV library");
  }

  std::shared_ptr<const std::string> file_;
  TextWindow text_;
  std::vector<std::string> fields_, names_;  // fields of the row; names of the columns, as JSON strings
  std::vector<bool> keep_;
  int64_t line_ = 0;  // line at which the row begins
};

}  // namespace

std::unique_ptr<RecordReader> open_csv_records(const std::string& path, const RecordOptions& options) {
  return std::make_unique<CsvRecords>(path, options);
}

}  // namespace ravine
