#include "infer/likelihood.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "infer/kv_cache.h"
#include "infer/model_ranks.h"
#include "infer/sampler.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

using Ids = std::vector<int32_t>;
constexpr int64_t kLeastShared = 16;  // tokens; a shorter common beginning is not worth a pass

// One context with one continuation: the tokens to run, and the index of the last context token.
struct Row {
  Ids fed;                           // all tokens but the last
  std::span<const int32_t> targets;  // the continuation
  int64_t from = 0;                  // index in `fed` of the token before the continuation
  double* logprob = nullptr;         // receives the sum of log-probabilities
  int32_t* first = nullptr;          // receives the most likely token after the context; null if another row writes it
  int64_t length() const { return static_cast<int64_t>(fed.size()); }
};

// The next tokens of a slot. `rows`: the rows that use the logits of these tokens.
struct Feed {
  int64_t slot = 0, begin = 0, end = 0;
  std::vector<Row*> rows;  // all have equal tokens before `end`; the tokens of the first are run
};

int64_t common_length(const Ids& a, const Ids& b, int64_t most) {
  most = std::min({most, static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size())});
  int64_t n = 0;
  while (n < most && a[static_cast<size_t>(n)] == b[static_cast<size_t>(n)]) ++n;
  return n;
}

// A row of logits that a row needs.
struct Wanted {
  Row* row = nullptr;
  int32_t label = 0;
  bool first = false;
};

// Returns the most likely token of a row of logits. Host work: a search of one row.
int32_t most_likely(const TensorView& logits, int64_t row) {
  std::vector<float> scores(static_cast<size_t>(logits.cols()));
  visit_float(logits.dtype, [&](auto zero) {
    const auto* from = logits.row<decltype(zero)>(row);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(from[i]);
  });
  return index_of_largest(scores);
}

class LikelihoodRun {
 public:
  // longest: largest number of tokens of a row in the cache; rows: largest number of rows of an item.
  LikelihoodRun(const LoadedModel& loaded, const LikelihoodOptions& o, int64_t longest, int64_t rows)
      : loaded_(loaded),
        o_(o),
        longest_(longest),
        rows_(rows),
        ctx_(setup()),
        model_ranks_(loaded, ctx_),
        cache_(model_ranks_.layers(), model_ranks_.cache_widths(), loaded.types.compute, 1 + o.batch * (1 + rows),
               loaded.spread.ranks_per_host),
        shares_(!model_ranks_.turns(1, longest)) {}

  bool stops(bool mine) const { return model_ranks_.any(mine); }

  // Runs a batch: the rows of each item. next: the first row of the following batch, or null.
  void batch(std::vector<std::vector<Row>>& items, const Row* next) {
    const int64_t root = shares_ ? read_root(items, next) : 0;
    std::vector<Feed> trunks, branches;
    for (size_t i = 0; i < items.size(); ++i) {
      const int64_t shared = trunk_of(items[i]);
      if (shared <= root) continue;
      Feed trunk{begin(trunk_slot(i), 0, root), root, shared, {}};
      for (Row& r : items[i]) trunk.rows.push_back(&r);
      trunks.push_back(std::move(trunk));
    }
    feed(std::move(trunks));
    for (size_t i = 0; i < items.size(); ++i) {
      const int64_t shared = std::max(root, trunk_of(items[i]));
      int64_t slot = trunk_slot(i);
      const int64_t like = shared > root ? slot : 0;
      for (Row& r : items[i])
        if (r.length() > shared) branches.push_back({begin(++slot, like, shared), shared, r.length(), {&r}});
    }
    feed(std::move(branches));
  }

 private:
  Ctx::Setup setup() {
    Ctx::Setup s = loaded_.setup(arena_);
    s.recipe = o_.recipe;
    if (o_.observer) s.observers.push_back(o_.observer);
    return s;
  }
  int64_t trunk_slot(size_t item) const { return 1 + static_cast<int64_t>(item) * (1 + rows_); }

  // Makes `slot` hold the first `tokens` tokens of slot `like`.
  int64_t begin(int64_t slot, int64_t like, int64_t tokens) {
    if (tokens > 0)
      cache_.copy(like, slot);
    else
      cache_.clear(slot);
    return slot;
  }

  // Returns the number of tokens that the rows of an item have in common.
  int64_t trunk_of(const std::vector<Row>& rows) const {
    if (rows.empty() || (!shares_ && rows.size() > 1)) return 0;
    int64_t shared = rows[0].length();
    for (const Row& r : rows) shared = common_length(rows[0].fed, r.fed, shared);
    return shared;
  }

  // Makes slot 0 hold a common beginning of all rows and returns its length. The beginning ends before the first logits
  // that a row needs. The beginning of the previous batch is kept if it fits, and extended by the tokens that the next
  // batch shares too.
  int64_t read_root(std::vector<std::vector<Row>>& items, const Row* next) {
    Row* any = nullptr;
    int64_t own = longest_;
    for (std::vector<Row>& rows : items)
      for (Row& r : rows) {
        if (!any) any = &r;
        own = common_length(any->fed, r.fed, std::min(own, r.from));
      }
    if (!any) return 0;
    const int64_t with_next = next ? common_length(any->fed, next->fed, own) : own;
    int64_t there = static_cast<int64_t>(root_.size());
    if (there > own || common_length(root_, any->fed, there) < there) there = 0;
    int64_t target = there;
    if (with_next >= there + kLeastShared)
      target = with_next;
    else if (there == 0 && own >= kLeastShared && items.size() > 1)
      target = own;
    if (there == 0) cache_.clear(0);
    root_.assign(any->fed.begin(), any->fed.begin() + target);
    if (target > there) feed({{0, there, target, {any}}});
    return target;
  }

  // Runs the tokens of all feeds, in passes of at most step_tokens tokens.
  void feed(std::vector<Feed> feeds) {
    for (size_t first = 0; first < feeds.size();) {
      int64_t budget = o_.step_tokens, room = 0;
      ids_.clear(), positions_.clear(), logit_rows_.clear(), wanted_.clear();
      std::vector<std::pair<Feed*, int64_t>> takes;
      for (size_t i = first; i < feeds.size() && budget > 0; ++i) {
        const int64_t take = std::min(feeds[i].end - feeds[i].begin, budget);
        budget -= take;
        room = std::max(room, feeds[i].begin + take);
        takes.emplace_back(&feeds[i], take);
      }
      cache_.begin_step(room, longest_);
      batch_ = {};
      for (auto& [f, take] : takes) {
        cache_.extend(f->slot, static_cast<int64_t>(ids_.size()), take);
        const Row& like = *f->rows[0];
        batch_.lengths.push_back(like.length());
        for (int64_t p = f->begin; p < f->begin + take; ++p) {
          for (Row* r : f->rows) want(*r, p);
          ids_.push_back(like.fed[static_cast<size_t>(p)]);
          positions_.push_back(static_cast<int32_t>(p));
        }
        f->begin += take;
        batch_.max_position = std::max(batch_.max_position, f->begin);
        if (f->begin == f->end) ++first;  // in order: only the last feed of a pass may be incomplete
      }
      pass();
    }
  }

  // Records the logits that row `r` needs of the token at position p, which is added next.
  void want(Row& r, int64_t p) {
    const int64_t at = p - r.from;
    if (at < 0 || at >= static_cast<int64_t>(r.targets.size())) return;
    logit_rows_.push_back(static_cast<int32_t>(ids_.size()));
    wanted_.push_back({&r, r.targets[static_cast<size_t>(at)], at == 0 && r.first});
  }

  static TensorView view(std::vector<int32_t>& v) { return view_of(v.data(), DType::i32, {static_cast<int64_t>(v.size())}); }

  void pass() {
    batch_.tokens = static_cast<int64_t>(ids_.size());
    batch_.ids = view(ids_);
    batch_.positions = view(positions_);
    batch_.logit_rows = view(logit_rows_);
    batch_.segments = cache_.segments();
    batch_.cache = &cache_;
    model_ranks_.forward(batch_);
    if (wanted_.empty()) return;
    std::vector<double> losses(wanted_.size());
    std::vector<int32_t> firsts(wanted_.size(), -1), labels;
    for (const Wanted& w : wanted_) labels.push_back(w.label);
    if (model_ranks_.decides()) {
      const TensorView logits = ctx_.outputs().at("logits").view();
      ctx_.call(CrossEntropy{.logits = logits,
                             .labels = view(labels),
                             .losses = view_of(losses.data(), DType::f64, {static_cast<int64_t>(losses.size())})});
      for (size_t i = 0; i < wanted_.size(); ++i)
        if (wanted_[i].first) firsts[i] = most_likely(logits, static_cast<int64_t>(i));
    }
    model_ranks_.share(losses.data(), static_cast<int64_t>(losses.size() * sizeof(double)));
    model_ranks_.share(firsts.data(), static_cast<int64_t>(firsts.size() * sizeof(int32_t)));
    for (size_t i = 0; i < wanted_.size(); ++i) {
      require(std::isfinite(losses[i]), "likelihood: the model gives {} as the loss of token {}", losses[i], labels[i]);
      *wanted_[i].row->logprob -= losses[i];
      if (wanted_[i].first) *wanted_[i].row->first = firsts[i];
    }
  }

  const LoadedModel& loaded_;
  const LikelihoodOptions& o_;
  const int64_t longest_, rows_;
  HeapArena arena_;
  Ctx ctx_;
  ModelRanks model_ranks_;
  SlotCache cache_;
  const bool shares_;  // true if the keys of a common beginning are equal in all rows
  Ids root_;           // the tokens in slot 0
  Batch batch_;
  Ids ids_, positions_, logit_rows_;
  std::vector<Wanted> wanted_;
};

void check_items(const std::vector<Continuations>& items, const ModelFacts& facts, const std::string& where) {
  for (size_t i = 0; i < items.size(); ++i) {
    auto item_name = [&] { return fmt::format("{}, item {}", where, i + 1); };
    auto check_ids = [&](const Ids& ids) {
      for (const int32_t id : ids)
        if (id < 0 || id >= facts.vocabulary)
          throw UserError(fmt::format("token {}", id), item_name(),
                          fmt::format("ids must be 0 or more, and below vocab_size = {}", facts.vocabulary),
                          more_rows_advice(id));
    };
    if (items[i].context.empty())
      throw UserError("a context without tokens", item_name(), "its continuations are scored after at least one token",
                      "write something there");
    check_ids(items[i].context);
    for (const Ids& context : items[i].contexts) check_ids(context);
    for (const Ids& c : items[i].continuations) {
      if (c.empty())
        throw UserError("a continuation without tokens", item_name(), "at least one token is scored", "write something there");
      check_ids(c);
      if (facts.max_positions > 0 && static_cast<int64_t>(c.size()) > facts.max_positions)
        throw UserError(fmt::format("a continuation of {} tokens", c.size()), item_name(),
                        fmt::format("the model has max_position_embeddings = {}", facts.max_positions), "shorten it");
    }
  }
}

const Ids& context_of(const Continuations& item, size_t continuation) {
  return item.contexts.empty() || item.contexts[continuation].empty() ? item.context : item.contexts[continuation];
}

std::vector<Row> rows_of_item(const Continuations& item, int64_t positions, Likelihoods& result) {
  result.logprobs.assign(item.continuations.size(), 0);
  std::vector<Row> rows;
  for (size_t c = 0; c < item.continuations.size(); ++c) {
    const Ids& targets = item.continuations[c];
    Row r;
    const Ids& context = context_of(item, c);
    int64_t keep = static_cast<int64_t>(context.size());
    if (positions > 0) keep = std::min(keep, positions + 1 - static_cast<int64_t>(targets.size()));
    r.fed.assign(context.end() - keep, context.end());
    r.fed.insert(r.fed.end(), targets.begin(), targets.end() - 1);
    r.targets = targets;
    r.from = keep - 1;
    r.logprob = &result.logprobs[c];
    if (rows.empty()) r.first = &result.first;
    rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace

std::vector<Likelihoods> likelihoods(const LoadedModel& loaded, const std::vector<Continuations>& items,
                                     const LikelihoodOptions& options, const LikelihoodEvents& events,
                                     const std::string& where) {
  const ModelFacts& facts = loaded.model->facts();
  require(options.batch >= 1 && options.step_tokens >= 1, "likelihood: batch and step_tokens must be above 0, got {} and {}",
          options.batch, options.step_tokens);
  check_items(items, facts, where);
  std::vector<Likelihoods> results(items.size());
  int64_t longest = 1, most = 1;
  for (const Continuations& item : items) {
    most = std::max(most, static_cast<int64_t>(item.continuations.size()));
    for (size_t c = 0; c < item.continuations.size(); ++c)
      longest = std::max(longest, static_cast<int64_t>(context_of(item, c).size() + item.continuations[c].size()) - 1);
  }
  if (facts.max_positions > 0) longest = std::min(longest, facts.max_positions);
  if (items.empty()) return results;
  LikelihoodRun run(loaded, options, longest, most);
  auto rows_from = [&](size_t begin) {
    std::vector<std::vector<Row>> rows;
    for (size_t i = begin; i < std::min(items.size(), begin + static_cast<size_t>(options.batch)); ++i)
      rows.push_back(rows_of_item(items[i], facts.max_positions, results[i]));
    return rows;
  };
  std::vector<std::vector<Row>> rows = rows_from(0);
  size_t begin = 0;
  while (begin < items.size() && !run.stops(events.stop && events.stop())) {
    const size_t end = begin + rows.size();
    std::vector<std::vector<Row>> coming = rows_from(end);
    const bool follows = !coming.empty() && !coming[0].empty();
    run.batch(rows, follows ? &coming[0][0] : nullptr);
    for (; begin < end; ++begin)
      if (events.finished) events.finished(begin, results[begin]);
    rows = std::move(coming);
  }
  for (; begin < items.size(); ++begin) results[begin] = {};
  return results;
}

}  // namespace ravine
