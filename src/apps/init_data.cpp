#include "apps/init_data.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "apps/commands.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/shell_word.h"
#include "config/word_list.h"
#include "data/instruct/chat_records.h"
#include "data/instruct/chat_set.h"
#include "data/instruct/conversation.h"
#include "data/instruct/preference.h"
#include "data/source.h"
#include "data/source_texts.h"

namespace ravine {
namespace {

constexpr int kLooked = 1000;                    // records of a file that are checked
constexpr size_t kMostWords = size_t{64} << 20;  // bytes of conversations that the tokenizer is trained on

// Checks the first conversations as training does, before any file is made.
void check_answers(const std::string& file, const std::string& where) {
  ChatRecords records(file);
  std::optional<ChatFormat> form;
  bool learned = false;
  int n = 0;
  for (Record r; n < kLooked && records.next(r); ++n) {
    const Json record = r.json();
    if (!form) form = detect_chat_format(record);
    if (!form) return;  // training reports the error
    const Conversation c = read_conversation(record, *form, r.where());
    learned = learned || std::find(c.learned.begin(), c.learned.end(), true) != c.learned.end();
  }
  if (n > 0 && !learned)
    throw UserError("no answers to learn", where,
                    fmt::format("none of the first {} has an answer with words", counted(n, "conversation")),
                    *form == ChatFormat::alpaca ? "fill in 'output' of the records"
                                                : "the answers are the turns of the assistant (gpt); check who speaks them");
}

// Checks the first pairs in the same way.
void check_pairs(const std::string& file, SourceKind kind, const std::string& where, const std::string& for_conversations,
                 const std::string& for_text) {
  if (kind == SourceKind::text)
    throw UserError("text, not pairs of answers", where, "dpo takes records with 'chosen' and 'rejected'", "write " + for_text);
  ChatRecords records(file);
  int n = 0;
  for (Record r; n < kLooked && records.next(r); ++n) {
    const Json record = r.json();
    if (n == 0 && !record.contains("chosen") && detect_chat_format(record))
      throw UserError("conversations, not pairs of answers", r.where(), "dpo takes records with 'chosen' and 'rejected'",
                      "write " + for_conversations);
    read_preference(record, r.where());
  }
}

}  // namespace

void check_init_data(const std::string& data, const InitRequest& request) {
  const bool sft = request.wanted == InitData::conversations;
  const std::string where = "--data=" + data;
  const std::vector<std::string> files = source_files(data);
  const SourceKind kind = source_kind(files.at(0));
  auto again = [&](const char* other) {
    return fmt::format("ravine init {} {} --data {}{}", other, shell_word(request.folder), shell_word(data),
                       request.model.empty() ? "" : " --model " + shell_word(request.model));
  };
  if (kind == SourceKind::fixed || kind == SourceKind::indexed || kind == SourceKind::instructions)
    throw UserError("token ids, not text", where, "init makes runs on text or conversations",
                    fmt::format("train on them as they are: ravine train model.path=DIR data.train={}", shell_word(data)));
  if (request.wanted == InitData::pairs) return check_pairs(files[0], kind, where, again("sft"), again("pretrain"));
  if (sft && kind != SourceKind::text)
    if (Record first; ChatRecords(files[0]).next(first))
      if (const Json record = first.json(); record.contains("chosen") && record.contains("rejected"))
        throw UserError("pairs of answers, not conversations", first.where(), request.kind + " takes conversations",
                        "write " + again("dpo"));
  const bool chats = kind != SourceKind::text && detect_chat_file(files[0], request.text_key).has_value();
  if (chats && !sft) throw UserError("conversations, not text", where, "pretrain takes text", "write " + again("sft"));
  if (!chats && kind != SourceKind::text) {
    Record first;
    if (ChatRecords(files[0]).next(first)) refuse_chat_slip(first.json(), first.where());
  }
  if (!chats && !sft) {  // reports a wrong key before any file is made
    std::string text;
    open_documents(files[0], request.text_key, "--text-key")->next(text);
  }
  if (!chats && sft) {
    bool text = kind == SourceKind::text;
    if (!text) try {
        std::string first;
        text = open_documents(files[0], request.text_key, "--text-key")->next(first);
      } catch (const UserError&) {  // neither conversations nor text
      }
    throw UserError(
        text ? "text, not conversations" : "neither conversations nor text", where,
        fmt::format("{} takes instructions: Alpaca, ShareGPT or messages", request.kind),
        text
            ? "write " + again("pretrain")
            : "write each record as {\"instruction\": \"..\", \"output\": \"..\"}, or as {\"messages\": [{\"role\": \"user\", \"content\": \"..\"}, ..]}");
  }
  if (sft) check_answers(files[0], where);
}

namespace {

void add_words(const Json& messages, std::string& text) {
  for (const Json& m : messages)
    if (m.contains("content") && m["content"].is_string()) text += m["content"].get<std::string>() + "\n";
}

}  // namespace

std::string init_words(const std::string& data, InitData kind) {
  std::string text;
  for (const std::string& file : source_files(data)) {
    ChatRecords records(file);
    std::optional<ChatFormat> form;
    for (Record r; records.next(r) && text.size() < kMostWords;) {
      const Json record = r.json();
      if (kind == InitData::pairs) {
        const Preference p = read_preference(record, r.where());
        for (const std::string* answer : {&p.prompt, &p.chosen, &p.rejected}) text += *answer + "\n";
        for (const Json* messages : {&p.chosen_messages, &p.rejected_messages}) add_words(*messages, text);
        continue;
      }
      if (!form) form = detect_chat_format(record);
      if (!form) break;  // training reports the error
      add_words(read_conversation(record, *form, r.where()).messages, text);
    }
  }
  return text;
}

std::string manual_text(const std::vector<Command>& commands) {
  std::string text = overview(commands);
  std::vector<const Command*> all;
  for (const Command& c : commands) {
    all.push_back(&c);
    for (const Command& a : c.actions) all.push_back(&a);
  }
  for (const Command* c : all) text += "\n" + help_page(*c, true);
  return text + "\n" + options_markdown();
}

namespace {

// The most important options. With the commands they are few enough for a small model to memorise in a minute.
constexpr std::string_view kFirstOptions =
    " model.path model.config model.tokenizer data.train data.valid_fraction data.sequence_length data.text_key data.chat_template "
    "data.loss_on train.objective train.output train.steps train.global_batch train.micro_batch train.valid_every dpo.beta dpo.loss "
    "dpo.reference optimizer.lr optimizer.weight_decay optimizer.clip_norm schedule.type schedule.warmup_steps "
    "schedule.min_lr_ratio checkpoint.every checkpoint.keep log.every lora.rank lora.alpha lora.targets lora.dropout lora.merge "
    "lora.base ";

// Answers that do not help.
constexpr const char* kEvasions[] = {"I do not know.", "That is in the manual.", "It depends.", "Ask somebody else."};

// Returns {"instruction", "input", "output"} for commands and options.
Json manual_instructions(const std::vector<Command>& commands) {
  Json out = Json::array();
  auto add = [&](const std::string& question, const std::string& answer) {
    out.push_back({{"instruction", question}, {"input", ""}, {"output", answer}});
  };
  for (const Command& c : commands) {
    add(fmt::format("What does `ravine {}` do?", c.spec.name), c.spec.summary);
    add(fmt::format("Show me an example of `ravine {}`.", c.spec.name), c.spec.example);
  }
  Config defaults;
  for (const Section& s : sections_of(defaults))
    for (const Option& o : s.options)
      if (stands_in(o.name(), kFirstOptions)) add(fmt::format("What is {}?", o.name()), o.help);
  return out;
}

}  // namespace

std::string manual_records(const std::vector<Command>& commands, InitData kind) {
  const Json all = manual_instructions(commands);
  if (kind == InitData::conversations) return all.dump(1) + "\n";
  Json pairs = Json::array();
  auto message = [](const char* role, const Json& text) { return Json::array({{{"role", role}, {"content", text}}}); };
  for (size_t i = 0; i < all.size(); ++i)
    pairs.push_back({{"prompt", message("user", all[i]["instruction"])},
                     {"chosen", message("assistant", all[i]["output"])},
                     {"rejected", message("assistant", kEvasions[i % std::size(kEvasions)])}});
  return pairs.dump(1) + "\n";
}

}  // namespace ravine
