#include "data/text_handler.h"

#include <simdjson.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/instruct/conversation.h"
#include "text/last_field.h"

namespace ravine {

namespace {

class TextHandler final : public RecordHandler {
 public:
  explicit TextHandler(const HandlerOptions& options) : o_(options) {
    auto refuse = [](const std::string& what, const std::string& where, const std::string& rule, const std::string& fix) {
      throw UserError(what, where, rule, fix);
    };
    if (o_.keys.empty()) refuse("no keys", "--json-keys", "at least one is needed", "name the field that holds the text");
    for (const std::string& k : o_.keys) {
      if (std::count(o_.keys.begin(), o_.keys.end(), k) > 1)
        refuse(fmt::format("key '{}' twice", k), "--json-keys", "each gives files of its own", "name it once");
      if (k.empty() || k.find('/') != std::string::npos)
        refuse(fmt::format("key '{}'", k), "--json-keys", "a key becomes part of a file name", "rename the field");
    }
    if (o_.sequence_length > 0)
      refuse("texts are not dropped by length", "--seq-length", "documents of text are joined and cut when they are trained on",
             "leave it out");
    if (!o_.chat_template.empty())
      refuse("text takes no template", "--template", "it belongs to conversations", "choose another --handler or leave it out");
  }
  std::vector<List> lists() const override {
    std::vector<List> lists;
    for (const std::string& k : o_.keys) lists.push_back({k, false});
    return lists;
  }
  std::vector<std::string> fields() const override { return o_.keys; }

  void handle(const Record& record, HandledRecord& out) const override {
    if (record.plain) {
      if (o_.keys.size() != 1 || o_.keys[0] != "text")
        throw UserError(fmt::format("no key '{}'", o_.keys[0] == "text" ? o_.keys[1] : o_.keys[0]), record.where(),
                        "a .txt file has the key 'text' only", "leave --json-keys out");
      add(record.body, out.lists[0], out);
      return finish(out.lists[0]);
    }
    thread_local simdjson::dom::parser parser;
    simdjson::dom::element root;
    if (auto error = parser.parse(record.body).get(root))
      throw UserError("not valid JSON", record.where(), simdjson::error_message(error), "a record must be one JSON object");
    simdjson::dom::object object;
    if (root.get(object))
      throw UserError("not a JSON object", record.where(), "a record must be one JSON object", "correct the file");
    for (size_t k = 0; k < o_.keys.size(); ++k) {
      simdjson::dom::element value;
      if (!last_field(object, o_.keys[k], value)) missing(o_.keys[k], object, record);
      simdjson::dom::array texts;
      if (!value.get(texts)) {
        for (simdjson::dom::element text : texts) add_element(text, o_.keys[k], record, out.lists[k], out);
      } else {
        add_element(value, o_.keys[k], record, out.lists[k], out);
      }
      finish(out.lists[k]);
    }
  }

 private:
  void add_element(simdjson::dom::element value, const std::string& key, const Record& record, TokenDocument& document,
                   HandledRecord& out) const {
    std::string_view text;
    if (!value.is_null() && value.get(text))
      throw UserError(fmt::format("'{}' is not a text", key), record.where(), "it must be a string, or a list of strings",
                      "correct the file or name another key with --json-keys");
    add(text, document, out);
  }
  void add(std::string_view text, TokenDocument& document, HandledRecord& out) const {
    const std::vector<int32_t> ids = text.empty() ? std::vector<int32_t>{} : o_.tokenizer->encode(text, true);
    if (ids.empty())
      out.dropped.push_back(kEmptyText);
    else
      document.add(ids);
  }
  void finish(TokenDocument& document) const {
    if (!o_.append_eod || document.lengths.empty()) return;
    document.ids.push_back(*o_.tokenizer->special().eos);
    ++document.lengths.back();
  }
  [[noreturn]] static void missing(const std::string& key, simdjson::dom::object object, const Record& record) {
    std::vector<std::string> keys;
    for (auto field : object) keys.emplace_back(field.key);
    const std::string near = nearest(key, keys);
    if (key.find(',') != std::string::npos)
      throw UserError(fmt::format("no key '{}'", key), record.where(), "several keys stand apart, without commas",
                      fmt::format("write --json-keys {}", fmt::join(split(key, ','), " ")));
    if (near.empty()) refuse_chat_slip(record.json(), record.where());
    if (const auto form = near.empty() ? detect_chat_format(record.json()) : std::nullopt)
      throw UserError(
          fmt::format("no key '{}'", key), record.where(),
          fmt::format("the record is a conversation ({}): it has {}", name(*form), fmt::join(keys, ", ")),
          *form == ChatFormat::alpaca
              ? "add --handler GeneralInstructionHandler for the prompt of ModelLink, or --handler alpaca for the tokenizer's chat template (another: --template chatml)"
              : fmt::format("add --handler {} for the tokenizer's chat template (another: --template chatml)", name(*form)));
    throw UserError(fmt::format("no key '{}'", key), record.where(),
                    near.empty()
                        ? fmt::format("the record has {}", keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", ")))
                        : fmt::format("did you mean '{}'?", near),
                    "name the field that holds the text with --json-keys");
  }
  HandlerOptions o_;
};

}  // namespace

std::unique_ptr<RecordHandler> make_text_handler(const HandlerOptions& options) {
  return std::make_unique<TextHandler>(options);
}

}  // namespace ravine
