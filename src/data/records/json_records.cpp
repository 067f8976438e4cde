// Reads .json: an array of objects, or concatenated objects. Only brackets and quotes are read here, so a record is
// found without being parsed.
#include "base/error.h"
#include "data/records/readers.h"

namespace ravine {

namespace {

class JsonRecords final : public RecordReader {
 public:
  JsonRecords(const std::string& path, const RecordOptions& o)
      : file_(std::make_shared<const std::string>(path)), text_(path, o.max_record), member_(o.member) {}

  bool next(Record& record) override {
    if (!begun_) {
      begun_ = true;
      space();
      if (!member_.empty()) go_to_member();
      if (text_.peek() == '[') text_.skip(1), array_ = true;
    } else if (array_ && !ended_) {
      space();
      if (text_.peek() == ',') {
        text_.skip(1);
        space();
        if (text_.peek() == ']') refuse("a comma must be followed by an object");
      } else if (text_.peek() != ']') {
        refuse(text_.peek() < 0 ? "the array does not end" : "objects of an array have commas between them");
      }
    }
    space();
    if (array_ && !ended_ && text_.peek() == ']') text_.skip(1), ended_ = true, space();
    if (ended_ && !member_.empty()) finish_object();
    if (ended_ && text_.peek() >= 0) refuse("nothing may follow the array");
    if (ended_ || (!array_ && text_.peek() < 0)) return false;
    if (text_.peek() < 0) refuse("the array does not end");
    if (text_.peek() != '{') refuse_element();
    const size_t n = object();
    record.body.assign(text_.view(n));
    record.plain = false;
    record.file = file_;
    record.number = text_.line();
    text_.skip(n);
    return true;
  }
  double done() const override { return text_.done(); }

 private:
  void space() {
    for (;;) {
      size_t n = 0;
      for (int c; n < 4096 && ((c = text_.peek(n)) == ' ' || c == '\n' || c == '\r' || c == '\t');) ++n;
      if (n == 0) return;
      text_.skip(n);
    }
  }

  // Skips to the array under `member_` of the single object of the file.
  void go_to_member() {
    if (text_.peek() != '{') refuse(fmt::format("with the field '{}' the file is one object", member_));
    text_.skip(1);
    for (;;) {
      space();
      if (text_.peek() == ',') text_.skip(1), space();
      if (text_.peek() != '"')
        throw UserError(fmt::format("no member '{}'", member_), text_.path(), "it holds the records", "correct the field");
      const std::string key(text_.view(string()));
      text_.skip(key.size());
      space();
      if (text_.peek() != ':') refuse("a colon is expected behind a key");
      text_.skip(1);
      space();
      if (key == '"' + member_ + '"') break;
      skip_value();
    }
    if (text_.peek() != '[')
      throw UserError(fmt::format("member '{}' is no array", member_), text_.path(), "it holds the records",
                      "correct the field");
  }

  // Skips the members after the records, and the end of the object.
  void finish_object() {
    for (space(); text_.peek() == ','; space()) {
      text_.skip(1), space();
      if (text_.peek() != '"') refuse("a key is expected");
      text_.skip(string());
      space();
      if (text_.peek() != ':') refuse("a colon is expected behind a key");
      text_.skip(1), space();
      skip_value();
    }
    if (text_.peek() != '}') refuse("the object does not end");
    text_.skip(1), space();
    member_.clear();  // the rest is the end of the file
  }

  void skip_value() {
    const int c = text_.peek();
    if (c == '{' || c == '[') return text_.skip(object());
    if (c == '"') return text_.skip(string());
    size_t n = 0;
    for (int d; (d = text_.peek(n)) >= 0 && d != ',' && d != '}' && n < 4096;) ++n;
    text_.skip(n);
  }

  // Returns the number of bytes of the string at the current position, with its quotes.
  size_t string() {
    for (size_t n = 1;; ++n) {
      const int c = text_.peek(n);
      if (c < 0) refuse("a string does not end");
      if (c == '\\') ++n;
      if (c == '"') return n + 1;
    }
  }

  // Returns the number of bytes of the object or array at the current position.
  size_t object() {
    std::vector<char> open;
    bool quoted = false;
    for (size_t n = 0;; ++n) {
      int c = text_.peek(n);
      if (c < 0) refuse(quoted ? "a string does not end" : "an object does not end");
      if (quoted) {
        const std::string_view rest = text_.rest();
        while (n < rest.size() && rest[n] != '"' && rest[n] != '\\') ++n;
        if (n == rest.size())
          --n;  // the string continues in the part that is not read yet
        else if (rest[n] == '\\')
          ++n;
        else
          quoted = false;
      } else if (c == '"') {
        quoted = true;
      } else if (c == '{' || c == '[') {
        open.push_back(c == '{' ? '}' : ']');
        if (open.size() > 1024) refuse("it is nested more than 1024 levels deep");
      } else if (c == '}' || c == ']') {
        if (open.back() != c) refuse(fmt::format("'{}' is expected, got '{}'", open.back(), static_cast<char>(c)));
        open.pop_back();
        if (open.empty()) return n + 1;
      }
    }
  }

  [[noreturn]] void refuse_element() {
    const bool values =
        array_ && std::string_view("[\"-0123456789tfn").find(static_cast<char>(text_.peek())) != std::string_view::npos;
    throw UserError(values ? "a list of something else than objects" : "not valid JSON",
                    fmt::format("{}:{}", text_.path(), text_.line()), "a record must be a JSON object",
                    values ? "write each as an object: [{\"text\": \"..\"}, ..]"
                           : "correct the file; plain text is named .txt, one object per line .jsonl");
  }
  [[noreturn]] void refuse(const std::string& rule) const {
    throw UserError("not valid JSON", fmt::format("{}:{}", text_.path(), text_.line()), rule,
                    "correct the file; one object per line belongs into a .jsonl file");
  }

  std::shared_ptr<const std::string> file_;
  TextWindow text_;
  std::string member_;
  bool begun_ = false, array_ = false, ended_ = false;
};

}  // namespace

std::unique_ptr<RecordReader> open_json_records(const std::string& path, const RecordOptions& options) {
  return std::make_unique<JsonRecords>(path, options);
}

}  // namespace ravine
