// The base classes of handlers of instruction sets: three parallel lists, ModelLink's prompt, and its label mask.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "data/record_handler.h"

namespace ravine {

// The base class of handlers that make sequences with labels, as in ModelLink. Their three lists become the token files
// PREFIX_packed_input_ids_document, PREFIX_packed_attention_mask_document and PREFIX_packed_labels_document, all int32.
class PackedHandler : public RecordHandler {
 public:
  // options.append_eod is a UserError if the tokenizer has no eos.
  explicit PackedHandler(const HandlerOptions& options);
  std::vector<List> lists() const final;
  void handle(const Record& record, HandledRecord& out) const final;

 protected:
  struct Fields {  // the fields of a record; where: the place of the record, for messages
    const Json& json;
    std::string where;
    std::string text(const char* key) const { return text(json, key); }
    // Returns the text in the field `key` of an object. A missing field, or one that is not a string, is a UserError.
    std::string text(const Json& of, const char* key) const;
    // Returns the object in the field `key` of the record. A field that is not an object is a UserError.
    const Json& map(const char* key) const;
    [[noreturn]] void wrong(const std::string& what, const std::string& rule) const;
  };
  virtual void add_sequences(const Fields& record, HandledRecord& out) const = 0;
  // Adds a sequence with an attention mask of ones to `out`. A sequence of options().sequence_length tokens
  // (--seq-length) or more is dropped and counted in out.dropped.
  void add(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels, HandledRecord& out) const;
  std::vector<int32_t> encode(const std::string& text) const { return options_.tokenizer->encode(text, true); }
  const HandlerOptions& options() const { return options_; }

 private:
  HandlerOptions options_;
};

// Renders messages with ModelLink's Alpaca prompt (modellink/data/prompter.py). Only the last answer is learned. The
// ignored labels are the first n, where n is the number of tokens of the text up to the last "### Response:" and its
// line end.
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

// The base class of handlers that make one plain text of each record. The tokens of the texts are one list, "text".
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

// Returns the text in the field `key` of an object. A missing field, or one that is not a string, is a UserError that
// names `where`.
std::string text_field(const Json& object, const char* key, const std::string& where);
std::string replaced(std::string text, std::string_view what, std::string_view by);
std::string stripped(std::string_view text);                                    // as Python's str.strip()
std::vector<std::string> split_by(std::string_view text, std::string_view by);  // as Python's str.split(by)

}  // namespace ravine
