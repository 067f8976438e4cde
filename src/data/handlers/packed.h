// What the handlers of instruction sets share: three lists side by side, the prompt of the ModelLink seed, and its label mask.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "data/record_handler.h"

namespace ravine {

// Writes PREFIX_packed_input_ids_document, _packed_attention_mask_document and _packed_labels_document, all of int32 as
// ModelLink has them.
class PackedHandler : public RecordHandler {
 public:
  explicit PackedHandler(const HandlerOptions& options);  // append_eod without an eos is a UserError
  std::vector<List> lists() const final;
  void handle(const Record& record, HandledRecord& out) const final;

 protected:
  struct Fields {  // of a record
    const Json& json;
    std::string where;
    std::string text(const char* key) const { return text(json, key); }
    std::string text(const Json& of, const char* key) const;  // missing, or no string: a UserError
    const Json& map(const char* key) const;                   // an object
    [[noreturn]] void wrong(const std::string& what, const std::string& rule) const;
  };
  virtual void add_sequences(const Fields& record, HandledRecord& out) const = 0;
  // One sequence: mask of ones, dropped where it reaches --seq-length.
  void add(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels, HandledRecord& out) const;
  std::vector<int32_t> encode(const std::string& text) const { return options_.tokenizer->encode(text, true); }
  const HandlerOptions& options() const { return options_; }

 private:
  HandlerOptions options_;
};

// Messages by the Alpaca prompt of ModelLink (modellink/data/prompter.py), the last answer learned: the labels up to and with
// the last
// "### Response:" and its line end are ignored, as many as that text alone has tokens.
class PromptHandler : public PackedHandler {
 public:
  using PackedHandler::PackedHandler;

 protected:
  struct Message {
    bool user;
    std::string text;
  };
  virtual std::vector<Message> messages(const Fields& record) const = 0;
  void add_sequences(const Fields& record, HandledRecord& out) const override;
  void add_prompt(const std::vector<Message>& messages, bool append_eod, HandledRecord& out) const;
};

// The list "text" of one document: for handlers that make plain text.
class PlainTextHandler : public RecordHandler {
 public:
  explicit PlainTextHandler(const HandlerOptions& options);
  std::vector<List> lists() const final { return {{"text", false}}; }
  void handle(const Record& record, HandledRecord& out) const final;

 protected:
  virtual std::string text(const Json& record, const std::string& where) const = 0;

 private:
  HandlerOptions options_;
};

std::string text_field(const Json& object, const char* key, const std::string& where);  // missing, or no string: a UserError
std::string replaced(std::string text, std::string_view what, std::string_view by);
std::string stripped(std::string_view text);                                    // as Python's str.strip()
std::vector<std::string> split_by(std::string_view text, std::string_view by);  // as Python's str.split(by)

}  // namespace ravine
