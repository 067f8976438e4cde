#include "data/handlers/packed.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/instruct/conversation.h"
#include "data/sample.h"
#include "text/unicode/utf8.h"

namespace ravine {

namespace {

constexpr const char* kSystem =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a response that appropriately "
    "completes the request. Please note that you need to think through your response logically and step by step.";
constexpr std::string_view kResponse = "### Response:";

Json object_of(const Record& record, const std::string& where) {
  if (record.plain)
    throw UserError("not a JSON object", where, "this handler reads records with fields",
                    "give .json, .jsonl, .csv or .parquet");
  Json json = parse_json(record.body, where);
  if (!json.is_object()) throw UserError("not a JSON object", where, "a record is an object", "correct the file");
  return json;
}

std::string where_of(const Record& record) {
  return fmt::format("{}:{}", record.file ? *record.file : "record", record.number);
}

void need_eos(const HandlerOptions& o) {
  if (o.append_eod && !o.tokenizer->special().eos)
    throw UserError(
        "the tokenizer has no end token", "--append-eod", "eos is appended to each document",
        "put the tokenizer_config.json that names its eos_token beside the tokenizer's files, or leave --append-eod out");
}

}  // namespace

std::string text_field(const Json& object, const char* key, const std::string& where) {
  auto it = object.find(key);
  if (it == object.end()) {
    std::vector<std::string> keys;
    for (const auto& [k, v] : object.items()) keys.push_back(k);
    if (const auto form = detect_chat_format(object))
      if (*form != ChatFormat::alpaca)
        throw UserError(fmt::format("no key '{}'", key), where, fmt::format("the record is a conversation ({})", name(*form)),
                        fmt::format("write --handler {}", name(*form)));
    std::string near = nearest(key, keys);
    throw UserError(fmt::format("no key '{}'", key), where,
                    near.empty() ? "the handler needs it" : fmt::format("did you mean '{}'?", near),
                    "correct the record or choose another handler");
  }
  if (!it->is_string())
    throw UserError(fmt::format("'{}' is no text", key), where, fmt::format("it must be a string, not {}", it->type_name()),
                    "correct the record");
  return it->get<std::string>();
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

std::string stripped(std::string_view text) { return std::string(strip_left(strip_right(text))); }

std::vector<std::string> split_by(std::string_view text, std::string_view by) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t next; (next = text.find(by, at)) != std::string_view::npos; at = next + by.size())
    parts.emplace_back(text.substr(at, next - at));
  parts.emplace_back(text.substr(at));
  return parts;
}

PackedHandler::PackedHandler(const HandlerOptions& options) : options_(options) { need_eos(options); }

std::vector<RecordHandler::List> PackedHandler::lists() const {
  return {{"packed_input_ids", true}, {"packed_attention_mask", true}, {"packed_labels", true}};
}

void PackedHandler::handle(const Record& record, HandledRecord& out) const {
  std::string where = where_of(record);
  Json json = object_of(record, where);
  add_sequences({json, where}, out);
}

std::string PackedHandler::Fields::text(const Json& of, const char* key) const { return text_field(of, key, where); }

const Json& PackedHandler::Fields::map(const char* key) const {
  auto it = json.find(key);
  if (it == json.end() || !it->is_object()) wrong(fmt::format("no map '{}'", key), "the handler needs it");
  return *it;
}

void PackedHandler::Fields::wrong(const std::string& what, const std::string& rule) const {
  throw UserError(what, where, rule, "correct the record or choose another handler");
}

void PackedHandler::add(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels, HandledRecord& out) const {
  require(ids.size() == labels.size(), "packed handler: {} ids, {} labels", ids.size(), labels.size());
  if (options_.sequence_length > 0 && static_cast<int64_t>(ids.size()) >= options_.sequence_length) {
    out.dropped.emplace_back("as long as --seq-length or longer");
    return;
  }
  out.lists[0].add(ids);
  out.lists[1].add(std::vector<int32_t>(ids.size(), 1));
  out.lists[2].add(labels);
}

void PromptHandler::add_sequences(const Fields& record, HandledRecord& out) const {
  add_prompt(messages(record), options().append_eod, out);
}

void PromptHandler::add_prompt(const std::vector<Message>& messages, bool append_eod, HandledRecord& out) const {
  std::string prompt = fmt::format("\n{}\n", kSystem);
  for (const Message& m : messages) prompt += fmt::format("{}\n{}\n", m.user ? "### Instruction:" : kResponse, m.text);
  std::vector<int32_t> ids = encode(prompt);
  if (append_eod) ids.push_back(*options().tokenizer->special().eos);
  std::vector<int32_t> labels = ids;
  size_t last = prompt.rfind(kResponse);
  std::string prompt_text = prompt.substr(0, last == std::string::npos ? prompt.size() : last) + std::string(kResponse) + "\n";
  std::fill_n(labels.begin(), std::min(labels.size(), encode(prompt_text).size()), kIgnored);
  add(ids, labels, out);
}

PlainTextHandler::PlainTextHandler(const HandlerOptions& options) : options_(options) { need_eos(options); }

void PlainTextHandler::handle(const Record& record, HandledRecord& out) const {
  std::string where = where_of(record), made = text(object_of(record, where), where);
  std::vector<int32_t> ids = options_.tokenizer->encode(made, true);
  if (options_.append_eod) ids.push_back(*options_.tokenizer->special().eos);
  if (options_.sequence_length > 0 && static_cast<int64_t>(ids.size()) >= options_.sequence_length)
    out.dropped.emplace_back("as long as --seq-length or longer");
  else
    out.lists[0].add(ids);
}

}  // namespace ravine
