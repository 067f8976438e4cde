#include "data/instruct/chat_set.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/counted.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "data/instruct/chat_records.h"
#include "data/text_encoding.h"
#include "files/checksum.h"
#include "model/vocabulary.h"
#include "text/chat/rendered_json.h"

namespace ravine {

namespace {

constexpr size_t kChatRoundBytes = 8 << 20;  // bytes of records that are encoded between two calls of progress

enum class Fate { kept, cut, too_long, without_answer, answer_behind };

struct Row {
  Record record;
  EncodedChat chat;
  uint64_t hash = 0;
  int64_t length = 0;  // tokens before the cut
  Fate fate = Fate::kept;
  std::exception_ptr error;
};

std::string location_of(const Record& r) { return fmt::format("{} record {}", *r.file, r.number); }

Json conversation_json(const Record& r) {
  if (find_invalid_utf8(r.body) != std::string::npos) refuse_encoding(r.body, *r.file, location_of(r));
  return parse_rendered(r.body, location_of(r));
}

bool learns(const EncodedChat& e) {
  return e.learned.size() > 1 && std::find(e.learned.begin() + 1, e.learned.end(), 1) != e.learned.end();
}

class ChatReading {
 public:
  ChatReading(const Tokenizer& tokenizer, const ChatEncoder& encoder, const ChatSetOptions& options)
      : all(tokenizer.size()),
        tokenizer_(tokenizer),
        encoder_(encoder),
        options_(options),
        vocabulary_(options.vocabulary ? options.vocabulary : tokenizer.size()) {}

  void run(const std::vector<std::string>& files) {
    progress_.files = static_cast<int64_t>(files.size());
    for (const std::string& path : files) {
      file(path);
      finish_round();
      ++progress_.files_done;
    }
  }

  ChatStore all;
  std::vector<uint64_t> hashes;  // of the records in `all`
  ChatCounts counts;
  ChatFormat format = ChatFormat::alpaca;

 private:
  void file(const std::string& path) {
    all.begin_file(path);
    ChatRecords records(path);
    std::optional<ChatFormat> known = chat_format(options_.format);
    size_t bytes = 0;
    for (Record r; records.next(r); r = {}) {
      if (r.plain)
        throw UserError("plain text, not conversations", path,
                        fmt::format("data.format={} reads records of JSON", name(options_.format)),
                        "leave data.format out, or name a .json, .jsonl, .csv or .parquet file");
      if (!known && !(known = detect_chat_format(conversation_json(r)))) {
        refuse_chat_slip(conversation_json(r), location_of(r));
        throw UserError("no conversation", location_of(r), "it has neither messages, conversations, nor instruction and output",
                        "rename its keys to those of one form: docs/howto/instruction-data.md shows them");
      }
      format = *known;
      bytes += r.body.size();
      round_.push_back({std::move(r), {}, 0, 0, Fate::kept, nullptr});
      if (bytes >= kChatRoundBytes) finish_round(), bytes = 0;
    }
  }

  void finish_round() {
    parallel_for(static_cast<int64_t>(round_.size()), [&](int64_t i) {
      Row& row = round_[static_cast<size_t>(i)];
      try {
        encode(row);
      } catch (...) {
        row.error = std::current_exception();
      }
    });
    for (const Row& r : round_) {
      if (r.error) std::rethrow_exception(r.error);  // of several errors, the first in record order
      ++counts.records;
      progress_.text_bytes += static_cast<int64_t>(r.record.body.size());
      counts.cut += r.fate == Fate::cut;
      counts.too_long += r.fate == Fate::too_long;
      if (r.fate == Fate::without_answer && counts.without_answer++ == 0) counts.first_without_answer = location_of(r.record);
      counts.answer_behind += r.fate == Fate::answer_behind;
      if (r.fate == Fate::too_long || r.fate == Fate::answer_behind)
        counts.longest_left_out = std::max(counts.longest_left_out, r.length);
      if (r.fate > Fate::cut) continue;
      all.append(r.chat, r.record.number);
      hashes.push_back(r.hash);
      counts.tokens += static_cast<int64_t>(r.chat.ids.size());
      counts.learned += std::count(r.chat.learned.begin(), r.chat.learned.end(), 1);
    }
    progress_.tokens = counts.tokens;
    round_.clear();
    if (options_.progress) options_.progress(progress_);
  }

  void encode(Row& row) const {
    std::string where = location_of(row.record);
    row.hash = checksum_of(std::as_bytes(std::span(row.record.body)));
    row.chat = encoder_.encode(read_conversation(conversation_json(row.record), format, where), where);
    EncodedChat& c = row.chat;
    for (int32_t id : c.ids)
      if (id >= vocabulary_)
        throw UserError(fmt::format("token {} is beyond the vocabulary", id), where,
                        fmt::format("the model has ids 0 to {}, the tokenizer 0 to {}", vocabulary_ - 1, tokenizer_.size() - 1),
                        more_rows_advice(id));
    row.length = static_cast<int64_t>(c.ids.size());
    auto longest = static_cast<size_t>(options_.longest);
    if (!learns(c)) {
      row.fate = Fate::without_answer;
    } else if (c.ids.size() > longest && options_.too_long == TooLong::drop) {
      row.fate = Fate::too_long;
    } else if (c.ids.size() > longest) {
      c.ids.resize(longest);
      c.learned.resize(longest);
      row.fate = learns(c) ? Fate::cut : Fate::answer_behind;
    }
  }

  const Tokenizer& tokenizer_;
  const ChatEncoder& encoder_;
  const ChatSetOptions& options_;
  int64_t vocabulary_;
  std::vector<Row> round_;
  TokenizeProgress progress_;
};

}  // namespace

uint64_t held_out_threshold(const std::vector<uint64_t>& hashes, double share, const std::string& where) {
  auto [least, greatest] = std::minmax_element(hashes.begin(), hashes.end());
  if (*least == *greatest)
    throw UserError("too few conversations to hold some out", where, "data.valid_fraction needs at least two different ones",
                    "name validation files in data.valid");
  return std::clamp(static_cast<uint64_t>(std::ldexp(share, 64)), *least + 1, *greatest);
}

namespace {

std::string reasons(const ChatCounts& c) {
  std::string s;
  const std::string without = c.first_without_answer.empty()
                                  ? "without an answer to learn"
                                  : fmt::format("without an answer to learn (the first is {})", c.first_without_answer);
  for (auto [n, why] : {std::pair(c.too_long, "too long"), std::pair(c.without_answer, without.c_str()),
                        std::pair(c.answer_behind, "with the answer after data.sequence_length")})
    if (n) s += fmt::format("{}{} {}", s.empty() ? "" : ", ", n, why);
  return s;
}

// Returns the advice for a set of which no conversation remains.
std::string what_is_missing(const ChatCounts& c, ChatFormat form, const ChatSetOptions& o) {
  if (c.longest_left_out > 0) {
    const std::string advice = c.longer_advice(o.longest - 1, o.positions);
    if (advice.empty()) return "the model takes no longer ones: shorten them, or choose another model or chat template";
    return advice + (c.too_long > 0 ? ", or data.too_long=cut" : "");
  }
  return form == ChatFormat::alpaca ? "write the answers under 'output': it is empty in all records"
         : form == ChatFormat::sharegpt
             ? "add the answers: no turn of 'gpt' has text (\"from\": \"gpt\")"
             : "add the answers: no message of 'assistant' (\"role\": \"assistant\") has text, or calls of tools, without \"weight\": 0";
}

}  // namespace

std::string ChatCounts::text() const {
  auto percent = [](int64_t part, int64_t of) {
    return of > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(of) : 0.0;
  };
  std::string s = fmt::format("{}, {} ({:.1f} % learned)", counted(records, "conversation"), counted(tokens, "token"),
                              percent(learned, tokens));
  if (cut) s += fmt::format(", {} cut at data.sequence_length", cut);
  return left_out() == 0 ? s : s + fmt::format(", {} left out: {}", left_out(), reasons(*this));
}

std::string ChatCounts::longer_advice(int64_t had, int64_t positions) const {
  const int64_t whole = longest_left_out - 1, length = positions > 0 ? std::min(whole, positions) : whole;
  if (length <= had) return "";
  return fmt::format("the longest has {} tokens: set data.sequence_length={}{}", longest_left_out, length,
                     length < whole ? ", the most that the model takes" : "");
}

std::string ChatCounts::warning() const {
  const int64_t out = left_out();
  if (records == 0 || static_cast<double>(out) <= kFewLeftOut * static_cast<double>(records)) return "";
  std::string fix;
  if (too_long > 0)
    fix += "; a larger data.sequence_length keeps long ones whole, data.too_long=cut their beginning";
  else if (answer_behind > 0)
    fix += "; a larger data.sequence_length reaches their answers";
  if (without_answer > 0) fix += "; look at some for an answer that is empty, or roles that data.format does not expect";
  return fmt::format("{} of {} ({:.0f} %) are left out and not learned: {}{}", out, counted(records, "conversation"),
                     100.0 * static_cast<double>(out) / static_cast<double>(records), reasons(*this), fix);
}

ChatSet read_chats(const std::vector<std::string>& files, const Tokenizer& tokenizer, const ChatEncoder& encoder,
                   const ChatSetOptions& options) {
  require(options.held_out >= 0 && options.held_out < 1, "chats: the held out share is 0 <= share < 1, got {}",
          options.held_out);
  require(options.longest >= 2, "chats: a conversation may have two tokens at least, got {}", options.longest);
  ChatReading r(tokenizer, encoder, options);
  r.run(files);
  std::string where = files.empty() ? "data.train" : files[0];
  if (r.all.count() == 0)
    throw UserError("no conversation is left", where, r.counts.records == 0 ? "the file holds no record" : r.counts.text(),
                    r.counts.records == 0 ? "check the file" : what_is_missing(r.counts, r.format, options));
  ChatSet set{ChatStore(tokenizer.size()), ChatStore(tokenizer.size()), r.counts, r.format};
  if (options.held_out == 0) {
    set.train = std::move(r.all);
    return set;
  }
  r.all.split(r.hashes, held_out_threshold(r.hashes, options.held_out, where), set.held_out, set.train);
  return set;
}

std::optional<ChatFormat> detect_chat_file(const std::string& path, const std::string& text_key) {
  ChatRecords records(path);
  Record r;
  if (!records.next(r)) return std::nullopt;
  const Json first = conversation_json(r);
  if (first.is_object() && first.contains(text_key) && first[text_key].is_string()) return std::nullopt;
  return detect_chat_format(first);
}

}  // namespace ravine
