#include "data/instruct/pair_set.h"

#include <algorithm>
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

constexpr size_t kPairRoundBytes = 8 << 20;  // bytes of records that are encoded between two calls of progress

enum class PairFate { kept, cut, too_long, prompt_too_long, alike };

struct PairRow {
  Record record;
  EncodedPair pair;
  uint64_t hash = 0;
  PairFate fate = PairFate::kept;
  std::exception_ptr error;
};

std::string location_of_pair(const Record& r) { return fmt::format("{} record {}", *r.file, r.number); }

Json preference_json(const Record& r) {
  if (r.plain)
    throw UserError("plain text, not preferences", *r.file, "train.objective=dpo reads records of JSON",
                    "name a .json, .jsonl, .csv or .parquet file with 'chosen' and 'rejected'");
  if (find_invalid_utf8(r.body) != std::string::npos) refuse_encoding(r.body, *r.file, location_of_pair(r));
  return parse_rendered(r.body, location_of_pair(r));
}

class PairReading {
 public:
  PairReading(const Tokenizer& tokenizer, const PairEncoder& encoder, const ChatSetOptions& options)
      : all(tokenizer.size()),
        tokenizer_(tokenizer),
        encoder_(encoder),
        options_(options),
        vocabulary_(options.vocabulary ? options.vocabulary : tokenizer.size()) {}

  void run(const std::vector<std::string>& files) {
    progress_.files = static_cast<int64_t>(files.size());
    for (const std::string& path : files) {
      all.begin_file(path);
      ChatRecords records(path);
      size_t bytes = 0;
      for (Record r; records.next(r); r = {}) {
        bytes += r.body.size();
        round_.push_back({.record = std::move(r)});
        if (bytes >= kPairRoundBytes) finish_round(), bytes = 0;
      }
      finish_round();
      ++progress_.files_done;
    }
  }

  ChatStore all;
  std::vector<uint64_t> hashes;  // of the record of each conversation in `all`
  ChatCounts counts;

 private:
  void finish_round() {
    parallel_for(static_cast<int64_t>(round_.size()), [&](int64_t i) {
      PairRow& row = round_[static_cast<size_t>(i)];
      try {
        encode(row);
      } catch (...) {
        row.error = std::current_exception();
      }
    });
    for (const PairRow& r : round_) {
      if (r.error) std::rethrow_exception(r.error);  // of several errors, the first in record order
      ++counts.records;
      progress_.text_bytes += static_cast<int64_t>(r.record.body.size());
      counts.cut += r.fate == PairFate::cut;
      counts.too_long += r.fate == PairFate::too_long;
      counts.answer_behind += r.fate == PairFate::prompt_too_long;
      if (r.fate == PairFate::alike && counts.without_answer++ == 0) counts.first_without_answer = location_of_pair(r.record);
      if (r.fate > PairFate::cut) continue;
      for (const EncodedChat* c : {&r.pair.chosen, &r.pair.rejected}) {
        all.append(*c, r.record.number);
        hashes.push_back(r.hash);
        counts.tokens += static_cast<int64_t>(c->ids.size());
        counts.learned += std::count(c->learned.begin(), c->learned.end(), 1);
      }
    }
    progress_.tokens = counts.tokens;
    round_.clear();
    if (options_.progress) options_.progress(progress_);
  }

  void encode(PairRow& row) const {
    const std::string where = location_of_pair(row.record);
    row.hash = checksum_of(std::as_bytes(std::span(row.record.body)));
    row.pair = encoder_.encode(read_preference(preference_json(row.record), where), where);
    const auto longest = static_cast<size_t>(options_.longest);
    bool longer = false;
    for (EncodedChat* c : {&row.pair.chosen, &row.pair.rejected}) {
      for (int32_t id : c->ids)
        if (id >= vocabulary_)
          throw UserError(
              fmt::format("token {} is beyond the vocabulary", id), where,
              fmt::format("the model has ids 0 to {}, the tokenizer 0 to {}", vocabulary_ - 1, tokenizer_.size() - 1),
              more_rows_advice(id));
      if (c->ids.size() <= std::max<size_t>(row.pair.prompt, 1))
        throw UserError(fmt::format("nothing of '{}' is left to learn", c == &row.pair.chosen ? "chosen" : "rejected"), where,
                        "an answer adds tokens to its prompt, and a prompt or a beginning token stands before it",
                        "correct the record, or leave it out");
      longer = longer || c->ids.size() > longest;
      if (c->ids.size() > longest) c->ids.resize(longest), c->learned.resize(longest);
    }
    if (row.pair.prompt >= longest)
      row.fate = PairFate::prompt_too_long;
    else if (longer && options_.too_long == TooLong::drop)
      row.fate = PairFate::too_long;
    else if (row.pair.chosen.ids == row.pair.rejected.ids)
      row.fate = PairFate::alike;
    else if (longer)
      row.fate = PairFate::cut;
  }

  const Tokenizer& tokenizer_;
  const PairEncoder& encoder_;
  const ChatSetOptions& options_;
  int64_t vocabulary_;
  std::vector<PairRow> round_;
  TokenizeProgress progress_;
};

std::string why_left_out(const ChatCounts& c) {
  std::string s;
  auto add = [&](int64_t n, const std::string& why) {
    if (n) s += fmt::format("{}{} {}", s.empty() ? "" : ", ", n, why);
  };
  add(c.too_long, "too long");
  add(c.answer_behind, "with a prompt of half of data.sequence_length or more");
  add(c.without_answer, c.first_without_answer.empty()
                            ? "whose two answers are the same"
                            : fmt::format("whose two answers are the same (the first is {})", c.first_without_answer));
  return s;
}

}  // namespace

std::string pair_counts_text(const ChatCounts& c) {
  std::string s = fmt::format("{}, {} ({:.1f} % learned)", counted(c.records, "pair"), counted(c.tokens, "token"),
                              c.tokens > 0 ? 100.0 * static_cast<double>(c.learned) / static_cast<double>(c.tokens) : 0.0);
  if (c.cut) s += fmt::format(", {} cut at half of data.sequence_length", c.cut);
  return c.left_out() == 0 ? s : s + fmt::format(", {} left out: {}", c.left_out(), why_left_out(c));
}

std::string pair_counts_warning(const ChatCounts& c) {
  const bool many = static_cast<double>(c.left_out()) > kFewLeftOut * static_cast<double>(c.records);
  if (c.left_out() == 0 || (!many && c.without_answer == 0)) return "";
  std::string fix;
  if (c.too_long + c.answer_behind > 0) fix += "; a larger data.sequence_length keeps long ones";
  if (c.without_answer > 0)
    fix += "; nothing is to be learned from two answers that are the same: correct such records, or remove them";
  return fmt::format("{} of {} are left out and not learned: {}{}", c.left_out(), counted(c.records, "pair"), why_left_out(c),
                     fix);
}

ChatSet read_pairs(const std::vector<std::string>& files, const Tokenizer& tokenizer, const PairEncoder& encoder,
                   const ChatSetOptions& options) {
  require(options.held_out >= 0 && options.held_out < 1, "pairs: the held out share is 0 <= share < 1, got {}",
          options.held_out);
  require(options.longest >= 2, "pairs: an answer with its prompt may have two tokens at least, got {}", options.longest);
  PairReading r(tokenizer, encoder, options);
  r.run(files);
  const std::string where = files.empty() ? "data.train" : files[0];
  if (r.all.count() == 0)
    throw UserError("no pair is left", where, r.counts.records == 0 ? "the file holds no record" : pair_counts_text(r.counts),
                    r.counts.records == 0                            ? "check the file"
                    : r.counts.too_long + r.counts.answer_behind > 0 ? "set a larger data.sequence_length"
                                                                     : "write two answers that differ");
  ChatSet set{ChatStore(tokenizer.size()), ChatStore(tokenizer.size()), r.counts, ChatFormat::messages};
  if (options.held_out == 0) {
    set.train = std::move(r.all);
    return set;
  }
  r.all.split(r.hashes, held_out_threshold(r.hashes, options.held_out, where), set.held_out, set.train);
  return set;
}

bool holds_conversations_of_preferences(const std::string& file) {
  ChatRecords records(file);
  Record r;
  return records.next(r) && is_conversation_of_preferences(preference_json(r), location_of_pair(r));
}

PairSamples::PairSamples(std::shared_ptr<const ChatStore> store, const ChatLayout& layout)
    : store_(std::move(store)), layout_(layout) {
  require(store_->count() % 2 == 0, "pair samples: {} sequences are no pairs", store_->count());
  pairs_.count = store_->count() / 2;
  std::vector<int32_t> columns;
  for (int64_t p = 0; p < pairs_.count; ++p)
    columns.push_back(static_cast<int32_t>(store_->length(2 * p) + store_->length(2 * p + 1) - 2));
  spread_ = spread_chats(columns, layout_);
  const ChatStore::Bytes bytes = store_->bytes({});
  for (const auto part : {bytes.ids, bytes.ends, bytes.learned})
    pairs_.fingerprint = pairs_.fingerprint * 0x9E3779B97F4A7C15 + checksum_of(part);
}

Sample PairSamples::sample(int64_t i) const {
  require(i >= 0 && i < count(), "pair samples: sample is 0 to {}, got {}", count() - 1, i);
  Sample s;
  for (int64_t p : spread_.of(i)) {
    s.pairs.push_back(p);
    for (int64_t k : {2 * p, 2 * p + 1}) append_chat(s, store_->chat(k));
  }
  const auto used = static_cast<ptrdiff_t>(s.positions.size());
  pad_sample(s, layout_);
  // The model may have only half as many positions as the sequence has columns.
  std::fill(s.positions.begin() + used, s.positions.end(), 0);
  return s;
}

std::string PairSamples::origin(int64_t i) const {
  const auto pairs = spread_.of(i);
  return origin_of_sample(store_->origin(2 * pairs[0]), pairs.size());
}

}  // namespace ravine
