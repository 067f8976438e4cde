#include "data/instruct/instruction_files.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/error.h"
#include "base/parallel.h"
#include "data/indexed/indexed_tokens.h"
#include "files/checksum.h"
#include "model/vocabulary.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {

namespace {

constexpr const char* kInstructionIds = "_packed_input_ids_document";
constexpr const char* kInstructionMask = "_packed_attention_mask_document";
constexpr const char* kInstructionLabels = "_packed_labels_document";
constexpr const char* kInstructionLists[] = {kInstructionIds, kInstructionMask, kInstructionLabels};

bool is_regular(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::unique_ptr<IndexedFile> open_list(const std::string& prefix, const char* name) {
  for (const char* suffix : {".idx", ".bin"})
    if (std::string path = prefix + name + suffix; !is_regular(path))
      throw UserError("instruction files are not complete", path,
                      fmt::format("it is missing beside the others; {}{{{},{},{}}}.bin and .idx belong together", prefix,
                                  kInstructionIds, kInstructionMask, kInstructionLabels),
                      "make all of them again with ravine preprocess --handler, or fetch it");
  return open_token_file(prefix + name);
}

}  // namespace

bool is_instruction_prefix(const std::string& path, std::string* prefix) {
  std::string p = path;
  bool suffix = p.ends_with(".bin") || p.ends_with(".idx");
  if (suffix) p.resize(p.size() - 4);
  auto there = [](const std::string& name) { return is_regular(name + ".idx") || is_regular(name + ".bin"); };
  for (const char* name : kInstructionLists)
    if (p.ends_with(name) && there(p)) {
      if (prefix) *prefix = p.substr(0, p.size() - std::string_view(name).size());
      return true;
    }
  std::error_code ignored;
  if (suffix || p.empty() || p.back() == '/' || std::filesystem::exists(p, ignored) || there(p)) return false;
  if (std::none_of(std::begin(kInstructionLists), std::end(kInstructionLists),
                   [&](const char* name) { return there(p + name); }))
    return false;
  if (prefix) *prefix = p;
  return true;
}

std::string instruction_source(const std::string& prefix) {
  return is_instruction_prefix(prefix) ? prefix : prefix + kInstructionIds;
}

InstructionFiles::InstructionFiles(const std::vector<std::string>& prefixes, int64_t vocabulary) : vocabulary_(vocabulary) {
  require(!prefixes.empty(), "instruction files: at least one prefix, got none");
  for (const std::string& source : prefixes) {
    std::string x = source;
    is_instruction_prefix(source, &x);
    Part p{open_list(x, kInstructionIds), open_list(x, kInstructionMask), open_list(x, kInstructionLabels),
           parts_.empty() ? 0 : parts_.back().end, 0};
    for (const auto* other : {&p.mask, &p.labels})
      if ((*other)->sequences() != p.ids->sequences() || (*other)->tokens() != p.ids->tokens())
        throw UserError("files do not belong together", (*other)->prefix() + ".idx",
                        fmt::format("it has {} sequences of {} tokens in all, {} has {} of {}", (*other)->sequences(),
                                    (*other)->tokens(), p.ids->prefix(), p.ids->sequences(), p.ids->tokens()),
                        "make all of them again");
    p.end = p.begin + p.ids->sequences();
    tokens_ += p.ids->tokens();
    parts_.push_back(std::move(p));
  }
}

const InstructionFiles::Part& InstructionFiles::part(int64_t i) const {
  require(i >= 0 && i < count(), "instruction files: conversation is 0 to {}, got {}", count() - 1, i);
  return *std::upper_bound(parts_.begin(), parts_.end(), i, [](int64_t n, const Part& p) { return n < p.end; });
}

int64_t InstructionFiles::length(int64_t i) const {
  const Part& p = part(i);
  const int64_t n = p.ids->length(i - p.begin);
  for (const auto* other : {&p.mask, &p.labels})
    if (int64_t have = (*other)->length(i - p.begin); have != n)
      throw UserError("files do not belong together", fmt::format("{} sequence {}", (*other)->prefix(), i - p.begin),
                      fmt::format("it has {} tokens, the ids have {}", have, n), "make all of them again");
  return n;
}

std::string InstructionFiles::where(int64_t i) const {
  const Part& p = part(i);
  return fmt::format("{} sequence {}", p.ids->prefix(), i - p.begin);
}

InstructionFiles::Row InstructionFiles::row(int64_t i, int64_t most) const {
  require(most >= 2, "instruction files: at least two tokens of a conversation, got {}", most);
  const Part& p = part(i);
  const int64_t n = std::min(length(i), most), s = i - p.begin;
  Row r;
  if (n < 2) return r;
  std::vector<int32_t> mask(static_cast<size_t>(n));
  r.ids.resize(mask.size());
  r.labels.resize(mask.size());
  p.ids->copy(s, 0, r.ids);
  p.mask->copy(s, 0, mask);
  p.labels->copy(s, 0, r.labels);
  check_ids(r.ids, vocabulary_, where(i));
  for (int32_t label : r.labels)
    if (label != kIgnored && (label < 0 || label >= vocabulary_))
      throw UserError(fmt::format("label {} is beyond the vocabulary", label),
                      fmt::format("{} sequence {}", p.labels->prefix(), s),
                      fmt::format("labels are 0 to {}, or {}", vocabulary_ - 1, kIgnored), more_rows_advice(label));
  r.ids.pop_back();
  r.labels.erase(r.labels.begin());
  mask.pop_back();
  auto first = std::find(mask.begin(), mask.end(), 1),
       behind = std::find_if(first, mask.end(), [](int32_t m) { return m != 1; });
  if (std::any_of(mask.begin(), first, [](int32_t m) { return m != 0; }) ||
      std::any_of(behind, mask.end(), [](int32_t m) { return m != 0; }))
    throw UserError("wrong attention mask", fmt::format("{} sequence {}", p.mask->prefix(), s),
                    "it is 0 or 1, and the 1s of a row are adjacent", "make the files again");
  r.seen = {static_cast<int32_t>(first - mask.begin()), static_cast<int32_t>(behind - first)};
  for (size_t t = 0; t < mask.size(); ++t)
    if (mask[t] == 0) r.labels[t] = kIgnored;
  return r;
}

void refuse_nothing_learned(const ChatCounts& counts, const std::string& where, const ChatSetOptions& o) {
  const std::string longer = counts.longer_advice(o.longest - 1, o.positions);
  throw UserError("no conversation is left", where, counts.text(),
                  longer.empty() ? "make the files again, with answers that fit the model" : longer);
}

InstructionChoice choose_instructions(const InstructionFiles& files, const ChatSetOptions& o) {
  enum class Fate : uint8_t { kept, cut, too_long, without_answer, answer_behind };
  struct Look {
    uint64_t hash = 0;
    int64_t tokens = 0, learned = 0;
    int32_t end = -1;  // its last label, before a cut
    Fate fate = Fate::kept;
  };
  std::vector<Look> looks(static_cast<size_t>(files.count()));
  constexpr int64_t kChunk = 256;
  parallel_for((files.count() + kChunk - 1) / kChunk, [&](int64_t chunk) {
    for (int64_t i = chunk * kChunk; i < std::min(files.count(), (chunk + 1) * kChunk); ++i) {
      Look& l = looks[static_cast<size_t>(i)];
      const int64_t n = files.length(i);
      const InstructionFiles::Row whole = files.row(i, std::max<int64_t>(n, 2));
      l.hash = checksum_of(std::as_bytes(std::span(whole.ids)));
      l.tokens = std::min(n, o.longest);
      auto learned = [&](int64_t columns) {
        return columns - std::count(whole.labels.begin(), whole.labels.begin() + columns, kIgnored);
      };
      const auto all = static_cast<int64_t>(whole.labels.size());
      l.learned = learned(std::min(all, o.longest - 1));
      if (learned(all) == 0)
        l.fate = Fate::without_answer;
      else if (n > o.longest && o.too_long == TooLong::drop)
        l.fate = Fate::too_long;
      else if (n > o.longest)
        l.fate = l.learned > 0 ? Fate::cut : Fate::answer_behind;
      l.end = whole.labels.empty() ? -1 : whole.labels.back();
    }
  });
  InstructionChoice c;
  std::vector<uint64_t> hashes;
  bool ends_alike = true;
  for (size_t i = 0; i < looks.size(); ++i) {
    const Look& l = looks[i];
    ++c.counts.records;
    c.counts.cut += l.fate == Fate::cut;
    c.counts.too_long += l.fate == Fate::too_long;
    c.counts.without_answer += l.fate == Fate::without_answer;
    c.counts.answer_behind += l.fate == Fate::answer_behind;
    if (l.fate == Fate::too_long || l.fate == Fate::answer_behind)
      c.counts.longest_left_out = std::max(c.counts.longest_left_out, files.length(static_cast<int64_t>(i)));
    if (l.fate > Fate::cut) continue;
    c.train.push_back(static_cast<int64_t>(i));
    hashes.push_back(l.hash);
    c.counts.tokens += l.tokens;
    c.counts.learned += l.learned;
    ends_alike = ends_alike && l.end >= 0 && l.end == c.end.value_or(l.end);
    c.end = l.end;
  }
  if (!ends_alike) c.end.reset();
  const std::string where = files.count() > 0 ? files.where(0) : "instruction files";
  if (looks.empty())
    throw UserError("no conversation is left", where, "the files hold no sequence",
                    "make them again with ravine preprocess --handler");
  if (c.train.empty()) refuse_nothing_learned(c.counts, where, o);
  if (o.held_out > 0) {
    const uint64_t threshold = held_out_threshold(hashes, o.held_out, where);
    std::vector<int64_t> all;
    all.swap(c.train);
    for (size_t k = 0; k < all.size(); ++k) (hashes[k] < threshold ? c.held_out : c.train).push_back(all[k]);
  }
  return c;
}

InstructionEnd instruction_end(const InstructionChoice& choice, const Tokenizer* tokenizer, const std::string& path) {
  std::unique_ptr<Tokenizer> own;
  if (!tokenizer && !path.empty()) {
    try {
      own = open_tokenizer(path);
      tokenizer = own.get();
    } catch (const UserError&) {  // the tokenizer is not required
    }
  }
  if (!tokenizer) return {};
  const auto end = choice.end;
  if (end && *end < tokenizer->size() && tokenizer->decode(std::span(&*end, 1), true).empty() &&
      !tokenizer->decode(std::span(&*end, 1), false).empty())
    return {end, fmt::format("answers end with {} (id {})", tokenizer->id_to_piece(*end), *end)};
  return {
      std::nullopt,
      "answers do not all end with one special token, so a model would not learn to stop: preprocess --append-eod puts eos there"};
}

InstructionSamples::InstructionSamples(std::shared_ptr<const InstructionFiles> files, std::vector<int64_t> chosen,
                                       const ChatLayout& layout)
    : files_(std::move(files)), chosen_(std::move(chosen)), layout_(layout) {
  std::vector<int32_t> columns;
  for (int64_t i : chosen_) {
    const int64_t n = std::min(files_->length(i), layout_.columns + 1);
    tokens_ += n;
    columns.push_back(static_cast<int32_t>(std::max<int64_t>(n - 1, 0)));
  }
  spread_ = spread_chats(columns, layout_);
}

Sample InstructionSamples::sample(int64_t i) const {
  require(i >= 0 && i < count(), "instruction samples: sample is 0 to {}, got {}", count() - 1, i);
  Sample s;
  for (int64_t k : spread_.of(i)) {
    const InstructionFiles::Row r = files_->row(chosen_[static_cast<size_t>(k)], layout_.columns + 1);
    const auto at = static_cast<int32_t>(s.ids.size());
    if (r.seen.length > 0) s.segments.push_back({at + r.seen.begin, r.seen.length});
    s.ids.insert(s.ids.end(), r.ids.begin(), r.ids.end());
    s.labels.insert(s.labels.end(), r.labels.begin(), r.labels.end());
    for (size_t t = 0; t < r.ids.size(); ++t) s.positions.push_back(static_cast<int32_t>(t));
  }
  pad_sample(s, layout_);
  return s;
}

std::string InstructionSamples::origin(int64_t i) const {
  const auto chats = spread_.of(i);
  return origin_of_sample(files_->where(chosen_[static_cast<size_t>(chats[0])]), chats.size());
}

}  // namespace ravine
