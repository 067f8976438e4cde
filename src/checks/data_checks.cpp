#include "checks/data_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "checks/checklist.h"
#include "data/sample.h"
#include "files/checksum.h"
#include "text/chat/prompt_templates.h"

namespace ravine {
namespace {

constexpr size_t kAround = 12;  // tokens that are shown on each side of a place

// The number of ids that have a row in the embedding, and the part of the training that says it.
std::pair<int64_t, std::string> vocabulary_of(const TokenSource& s) {
  if (s.side && s.side->built && s.side->rows_known) return {s.side->built->facts().vocabulary, "vocab_size of the model"};
  if (s.tokenizer) return {s.tokenizer->size(), "the tokenizer"};
  return {0, ""};
}

// The facts that one pass over the rows collects.
struct Scan {
  int64_t rows = 0, tokens = 0, outside = 0, repeated = 0;
  std::string first_outside, first_repeated;
  std::map<int32_t, int64_t> ends;     // last tokens of rows
  std::map<int32_t, int64_t> padding;  // tokens that fill the ends of rows
  std::set<size_t> lengths;
  int64_t labelled = 0;
  int64_t matches[3] = {};  // labels that equal the id `k` columns on
  int64_t compared[3] = {};
};

void count_labels(const TokenRow& row, Scan& scan) {
  if (row.labels.size() != row.ids.size()) return;
  std::vector<std::pair<int32_t, int32_t>> segments = row.segments;
  if (segments.empty()) segments.emplace_back(0, static_cast<int32_t>(row.ids.size()));
  for (const auto& [begin, length] : segments)
    for (int32_t t = begin; t < begin + length; ++t) {
      const int32_t label = row.labels[static_cast<size_t>(t)];
      if (label == kIgnored) continue;
      ++scan.labelled;
      for (int32_t k = 0; k < 3; ++k)
        if (t + k < begin + length) ++scan.compared[k], scan.matches[k] += row.ids[static_cast<size_t>(t + k)] == label;
    }
}

// Returns the number of ids before the padding: without the run of equal ids at the end.
size_t filled(const TokenRow& row) {
  size_t end = row.ids.size();
  while (end > 1 && row.ids[end - 1] == row.ids[end - 2]) --end;
  return row.ids.size() - end < 2 ? row.ids.size() : end - 1;
}

Scan scan_rows(const TokenSource& s, int64_t most, int64_t vocabulary) {
  Scan scan;
  std::unordered_map<uint64_t, int64_t> seen;
  scan.rows = most > 0 ? std::min(most, s.tokens->rows()) : s.tokens->rows();
  for (int64_t i = 0; i < scan.rows; ++i) {
    const TokenRow row = s.tokens->row(i);
    scan.tokens += static_cast<int64_t>(row.ids.size());
    scan.lengths.insert(row.ids.size());
    for (size_t t = 0; t < row.ids.size(); ++t)
      if (row.ids[t] < 0 || (vocabulary > 0 && row.ids[t] >= vocabulary)) {
        if (scan.outside++ == 0)
          scan.first_outside = fmt::format("id {} at column {} of {}", row.ids[t], t, s.tokens->location(i));
      }
    count_labels(row, scan);
    if (row.ids.empty()) continue;
    const size_t end = filled(row);
    if (end < row.ids.size()) ++scan.padding[row.ids.back()];
    ++scan.ends[row.ids[end - 1]];
    const uint64_t sum = checksum_of(std::as_bytes(std::span(row.ids)));
    const auto [it, fresh] = seen.emplace(sum, i);
    if (!fresh && scan.repeated++ == 0)
      scan.first_repeated = fmt::format("{} repeats {}", s.tokens->location(i), s.tokens->location(it->second));
  }
  return scan;
}

DataFinding check_range(const Scan& scan, int64_t vocabulary, const std::string& by) {
  DataFinding f{"ids", {}, ""};
  if (vocabulary == 0 && scan.outside == 0) {
    f.text = "no model and no tokenizer says which ids there are";
    return f;
  }
  f.kept = scan.outside == 0;
  f.text = *f.kept ? fmt::format("all {} ids are below {} ({})", scan.tokens, vocabulary, by)
                   : fmt::format("{} of {} ids are not in [0, {}) ({}): {}; such a token reads memory that is no embedding",
                                 scan.outside, scan.tokens, vocabulary, by, scan.first_outside);
  return f;
}

// Returns a special id of the model's config.json; nothing if it has none.
std::optional<int64_t> model_id(const TokenSource& s, const char* key) {
  if (!s.side) return {};
  const Json& given = s.side->value(of_model(key));
  if (given.is_number_integer()) return given.get<int64_t>();
  if (!s.side->model.is_object()) return {};
  const auto found = s.side->model.find(key);
  return found != s.side->model.end() && found->is_number_integer() ? std::optional(found->get<int64_t>()) : std::nullopt;
}

// Holds the special ids of tokenizer, model and data against each other.
DataFinding check_special(const TokenSource& s, const Scan& scan) {
  DataFinding f{"special ids", {}, ""};
  std::vector<std::string> known, wrong;
  const SpecialTokens own = s.tokenizer ? s.tokenizer->special() : SpecialTokens{};
  for (const auto& [name, id] : {std::pair{"bos", own.bos}, {"eos", own.eos}, {"pad", own.pad}, {"unk", own.unk}}) {
    const std::optional<int64_t> model = model_id(s, (std::string(name) + "_token_id").c_str());
    if (id && model && *id != *model)
      wrong.push_back(fmt::format("{} is {} in the tokenizer and {} in the model", name, *id, *model));
    if (id || model) known.push_back(fmt::format("{} {}", name, id ? *id : *model));
    f.kept = f.kept || (id && model) ? std::optional(true) : f.kept;
  }
  const std::optional<int64_t> eos = own.eos ? std::optional<int64_t>(*own.eos) : model_id(s, "eos_token_id");
  const auto most = [](const std::map<int32_t, int64_t>& counts) {
    return std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  };
  // Rows of one length are cut anywhere: their last tokens say nothing.
  if (const auto end = most(scan.ends);
      eos && scan.rows >= 8 && end != scan.ends.end() && 10 * end->second >= 9 * scan.rows && scan.lengths.size() > 1) {
    f.kept = true;
    if (end->first != *eos) wrong.push_back(fmt::format("rows of the data end in {}, and eos is {}", end->first, *eos));
  }
  const std::optional<int64_t> pad = model_id(s, "pad_token_id") ? model_id(s, "pad_token_id")
                                     : own.pad                   ? std::optional<int64_t>(*own.pad)
                                                                 : std::nullopt;
  if (const auto fill = most(scan.padding);
      pad && *pad >= 0 && fill != scan.padding.end() && 2 * fill->second >= scan.rows && scan.rows >= 4) {
    f.kept = true;
    if (fill->first != *pad && (!eos || fill->first != *eos))
      wrong.push_back(fmt::format("rows of the data are filled with {}, and pad is {}", fill->first, *pad));
  }
  if (!wrong.empty()) f.kept = false;
  f.text = !wrong.empty() ? fmt::format("{}", fmt::join(wrong, "; "))
           : f.kept       ? fmt::format("tokenizer, model and data agree: {}", fmt::join(known, ", "))
                          : "only one of tokenizer, model and data names them";
  return f;
}

DataFinding check_labels(const TokenSource& s, const Scan& scan) {
  DataFinding f{"labels", {}, ""};
  if (scan.labelled == 0) {
    f.text = "the source has ids alone; the program shifts them";
    return f;
  }
  const int expected = s.tokens->shifted() ? 1 : 0;
  const auto share = [&](int k) {
    return scan.compared[k] > 0 ? static_cast<double>(scan.matches[k]) / static_cast<double>(scan.compared[k]) : 0.0;
  };
  int best = expected;
  for (int k = 0; k < 3; ++k)
    if (share(k) > share(best)) best = k;
  f.kept = best == expected && share(best) > 0.5;
  const std::string found = share(best) > 0.5 ? best == 0   ? "the token of its own column"
                                                : best == 1 ? "the next token"
                                                            : "the token after the next"
                                              : "no token nearby";
  f.text = fmt::format(
      "a label is {} in {:.4g} % of {} columns; {}", found, 100 * share(best), scan.compared[best],
      expected == 1 ? "a run predicts the next token" : "the program shifts this column later, so it must not be shifted here");
  return f;
}

DataFinding check_repeats(const Scan& scan) {
  DataFinding f{"duplicates", 100 * scan.repeated <= scan.rows, ""};
  f.text = scan.repeated == 0 ? fmt::format("{} rows are distinct", scan.rows)
                              : fmt::format("{} of {} rows repeat another: {}", scan.repeated, scan.rows, scan.first_repeated);
  return f;
}

// Renders one conversation by the templates of training and inference, and compares the texts.
DataFinding check_template(const TokenSource& s) {
  DataFinding f{"template", {}, ""};
  const bool has_template = s.side && !s.side->config.data.chat_template.empty();
  if (!s.side || !s.tokenizer || (!has_template && !s.conversations)) {
    f.text = "no conversations are trained";
    return f;
  }
  std::unique_ptr<ChatTemplate> training, inference;
  try {
    training = choose_template(s.side->config.data.chat_template, s.tokenizer_path, *s.tokenizer, "data.chat_template").chat;
    inference = choose_template("", s.tokenizer_path, *s.tokenizer, "model.tokenizer").chat;
  } catch (const UserError& e) {
    f.kept = training ? std::optional(false) : std::nullopt;
    f.text = training ? fmt::format("the tokenizer has no template, so inference renders by another one than the training: {}",
                                    e.what())
                      : e.what();
    return f;
  }
  const Json messages = Json::array({{{"role", "user"}, {"content", "What is 2 + 2?"}},
                                     {{"role", "assistant"}, {"content", "4"}},
                                     {{"role", "user"}, {"content", "And 3 + 3?"}}});
  const Json conversation = {{"messages", messages}, {"add_generation_prompt", true}};
  std::string a, b;
  try {
    a = training->render(conversation), b = inference->render(conversation);
  } catch (const std::exception& e) {
    f.text = e.what();
    return f;
  }
  f.kept = a == b;
  if (a == b) {
    f.text = "training and inference render a conversation alike";
    return f;
  }
  size_t at = 0;
  while (at < std::min(a.size(), b.size()) && a[at] == b[at]) ++at;
  const auto piece = [&](const std::string& text) { return escaped(text.substr(at > 24 ? at - 24 : 0, 48)); };
  f.text = fmt::format("character {} differs: the training has '{}', inference '{}'", at + 1, piece(a), piece(b));
  return f;
}

// Reads a stream token by token.
class Cursor {
 public:
  Cursor(const TokenStream& stream, int64_t most)
      : stream_(stream), rows_(most > 0 ? std::min(most, stream.rows()) : stream.rows()) {}
  // Returns the next id; nothing at the end.
  std::optional<int32_t> next() {
    while (at_ == ids_.size()) {
      if (row_ + 1 >= rows_) return {};
      ids_ = stream_.row(++row_).ids, at_ = 0;
    }
    return ids_[at_++];
  }
  int64_t row() const { return row_; }
  // Returns the ids around the last one.
  std::vector<int32_t> around() const {
    const size_t here = at_ == 0 ? 0 : at_ - 1, begin = here > kAround ? here - kAround : 0;
    return {ids_.begin() + static_cast<ptrdiff_t>(begin),
            ids_.begin() + static_cast<ptrdiff_t>(std::min(ids_.size(), here + kAround))};
  }
  std::string location() const {
    return row_ < 0 ? "" : fmt::format("{} column {}", stream_.location(row_), at_ == 0 ? 0 : at_ - 1);
  }

 private:
  const TokenStream& stream_;
  int64_t rows_, row_ = -1;
  std::vector<int32_t> ids_;
  size_t at_ = 0;
};

}  // namespace

std::string shown_ids(std::span<const int32_t> ids, const Tokenizer* tokenizer) {
  if (tokenizer && std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && id < tokenizer->size(); }))
    return escaped(tokenizer->decode(ids, false));
  return fmt::format("{}", fmt::join(ids, " "));
}

std::vector<int64_t> drawn_rows(int64_t rows, int64_t count, uint64_t seed) {
  std::set<int64_t> drawn;
  std::mt19937_64 random(seed);
  while (static_cast<int64_t>(drawn.size()) < std::min(rows, count))
    drawn.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(rows)));
  return {drawn.begin(), drawn.end()};
}

std::vector<DataFinding> check_tokens(const TokenSource& source, int64_t most_rows) {
  const auto [vocabulary, by] = vocabulary_of(source);
  const Scan scan = scan_rows(source, most_rows, vocabulary);
  return {check_range(scan, vocabulary, by), check_special(source, scan), check_labels(source, scan), check_template(source),
          check_repeats(scan)};
}

StreamComparison compare_streams(const TokenSource& a, const TokenSource& b, int64_t most_rows) {
  StreamComparison out;
  Cursor x(*a.tokens, most_rows), y(*b.tokens, most_rows);
  for (;; ++out.equal) {
    const std::optional<int32_t> p = x.next(), q = y.next();
    out.a_ended = !p, out.b_ended = !q;
    if (!p || !q) return out;
    if (*p == *q) continue;
    out.split = StreamSplit{.token = out.equal,
                            .row_a = x.row(),
                            .row_b = y.row(),
                            .place_a = x.location(),
                            .place_b = y.location(),
                            .text_a = shown_ids(x.around(), a.tokenizer.get()),
                            .text_b = shown_ids(y.around(), b.tokenizer ? b.tokenizer.get() : a.tokenizer.get())};
    return out;
  }
}

}  // namespace ravine
