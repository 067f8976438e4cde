#include "infer/batcher.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/failure_text.h"
#include "base/parallel.h"
#include "infer/prompt_models.h"
#include "infer/sampler.h"

namespace ravine {
namespace {

TensorView view(std::vector<int32_t>& v) { return view_of(v.data(), DType::i32, {static_cast<int64_t>(v.size())}); }

// Copies a row of logits as f32. Host work: processing and sampling (infer/sampler.h).
std::vector<float> scores_of(const TensorView& logits, int64_t row) {
  std::vector<float> scores(static_cast<size_t>(logits.cols()));
  visit_float(logits.dtype, [&](auto zero) {
    const auto* from = logits.row<decltype(zero)>(row);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(from[i]);
  });
  return scores;
}

// Throws an Error that names the first score that is not finite.
void refuse(const Sequence& s, size_t position, std::span<const float> scores) {
  for (size_t i = 0; i < scores.size(); ++i)
    require(std::isfinite(scores[i]), "generate: the model gives {} for token {} at position {} of {}", scores[i], i, position,
            s.prompt_name);
}

// Returns the `count` best ids with their log-probabilities: score - log_sum. Of equal scores the lower id comes first.
std::vector<std::pair<int32_t, double>> best_of(std::span<const float> scores, int64_t count, double log_sum) {
  std::vector<int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto n = static_cast<std::ptrdiff_t>(std::min(ids.size(), static_cast<size_t>(count)));
  auto score = [&](int32_t id) { return scores[static_cast<size_t>(id)]; };
  std::partial_sort(ids.begin(), ids.begin() + n, ids.end(),
                    [&](int32_t a, int32_t b) { return score(a) > score(b) || (score(a) == score(b) && a < b); });
  std::vector<std::pair<int32_t, double>> best;
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const int32_t id = ids[static_cast<size_t>(i)];
    best.emplace_back(id, static_cast<double>(score(id)) - log_sum);
  }
  return best;
}

}  // namespace

std::string_view name(Finish f) {
  constexpr std::string_view names[] = {"eos", "length", "stop", "error"};
  return names[static_cast<int>(f)];
}

int64_t length_limit(const std::vector<int32_t>& prompt, const GenerateOptions& o) {
  int64_t length = static_cast<int64_t>(prompt.size()), limit = length + o.max_new_tokens;
  return o.max_length > 0 ? std::min(limit, o.max_length) : limit;
}

Batcher::Batcher(const LoadedModel& base, int64_t slots, int64_t longest, const GenerateOptions& shared)
    : loaded_(base),
      shared_(shared),
      longest_(longest),
      ctx_(setup()),
      model_ranks_(loaded_, ctx_),
      cache_(model_ranks_.layers(), model_ranks_.cache_widths(), loaded_.types.compute, slots, loaded_.spread.ranks_per_host) {
  for (int64_t s = cache_.slots(); s-- > 0;) free_.push_back(s);
}

Ctx::Setup Batcher::setup() {
  Ctx::Setup s = loaded_.setup(arena_);
  s.recipe = shared_.recipe;
  if (shared_.observer) s.observers.push_back(shared_.observer);
  return s;
}

void Batcher::admit(Sequence sequence) {
  require(!free_.empty(), "batcher: no free slot");
  Active a;
  a.slot = free_.back();
  a.limit = length_limit(sequence.prompt, sequence.prompt_model->options);
  a.context = std::move(sequence.prompt);
  a.prompt = a.context.size();
  sequence.prompt = {};
  a.of = std::move(sequence);
  free_.pop_back();
  active_.push_back(std::move(a));
  std::stable_sort(active_.begin(), active_.end(), [](const Active& x, const Active& y) { return x.of.order < y.of.order; });
}

std::vector<NewToken> Batcher::step() {
  std::vector<NewToken> tokens;
  std::vector<Active*> all;
  for (Active& a : active_) all.push_back(&a);
  if (all.empty()) return tokens;
  if (model_ranks_.alone()) try {
      pass(all, tokens);
      // A pass of each sequence alone finds the sequence that failed.
    } catch (const std::exception&) {
      pass_apart(all, tokens);
    }
  else
    pass(all, tokens);
  std::erase_if(active_, [](const Active& a) { return a.slot < 0; });
  return tokens;
}

// Runs one step of these sequences and appends the new tokens.
void Batcher::pass(const std::vector<Active*>& all, std::vector<NewToken>& tokens) {
  forward(all);
  std::vector<const Active*> of;
  for (const Active* a : all)
    if (a->row >= 0) of.push_back(a);
  std::vector<NewToken> more(of.size());
  const std::vector<Choice> choices = choose(of, more);
  for (Active* a : all) {
    a->fed += a->take;
    if (a->row < 0) continue;
    NewToken& t = more[static_cast<size_t>(a->row)];
    const Choice& c = choices[static_cast<size_t>(a->row)];
    t.key = a->of.key, t.id = c.id, t.logprob = c.logprob;
    const std::vector<int32_t>& end_ids = a->options().end_ids;
    if (t.failure) {
      t.finish = Finish::error;
    } else {
      a->context.push_back(c.id);
      if (std::find(end_ids.begin(), end_ids.end(), c.id) != end_ids.end())
        t.finish = Finish::eos;
      else if (static_cast<int64_t>(a->context.size()) >= a->limit)
        t.finish = Finish::length;
    }
    if (t.finish) retire(*a);
  }
  std::move(more.begin(), more.end(), std::back_inserter(tokens));
}

// Runs one step of each sequence alone, from its first token: the pass that threw leaves the cache in an unknown state.
void Batcher::pass_apart(const std::vector<Active*>& all, std::vector<NewToken>& tokens) {
  for (Active* a : all) cache_.clear(a->slot), a->fed = 0;
  for (Active* a : all) try {
      pass({a}, tokens);
    } catch (const std::exception&) {
      NewToken t;
      t.key = a->of.key, t.finish = Finish::error, t.failure = std::current_exception();
      tokens.push_back(std::move(t));
      retire(*a);
    }
}

void Batcher::remove(size_t key) {
  for (Active& a : active_)
    if (a.of.key == key) retire(a);
  std::erase_if(active_, [](const Active& a) { return a.slot < 0; });
}

std::vector<size_t> Batcher::keys() const {
  std::vector<size_t> out;
  for (const Active& a : active_) out.push_back(a.of.key);
  return out;
}

void Batcher::retire(Active& a) {
  cache_.clear(a.slot);
  free_.push_back(std::exchange(a.slot, -1));
}

// Runs the model once over the pending tokens; sets `take` and `row` of each sequence.
void Batcher::forward(const std::vector<Active*>& all) {
  int64_t budget = shared_.step_tokens, room = 0, rows = 0;
  for (Active* at : all) {
    Active& a = *at;
    const auto length = static_cast<int64_t>(a.context.size());
    if (model_ranks_.invalidates_cache(a.length, length)) cache_.clear(a.slot), a.fed = 0;
    a.length = length;
    a.take = a.fed > 0 && a.pending() == 1 ? 1 : std::min(a.pending(), budget);
    if (a.take > 1 || a.fed == 0) budget -= a.take;
    a.row = a.take == a.pending() ? rows++ : -1;
    room = std::max(room, a.fed + a.take);
  }
  cache_.begin_step(room, longest_);
  ids_.clear(), positions_.clear(), logit_rows_.clear();
  Batch& b = batch_;
  b = {};
  for (const Active* at : all) {
    const Active& a = *at;
    if (a.take == 0) continue;
    const auto row = static_cast<int64_t>(ids_.size());
    cache_.extend(a.slot, row, a.take);
    add_adapter_rows(b, loaded_, *a.of.prompt_model->loaded,
                     {row, a.take, static_cast<int64_t>(logit_rows_.size()), a.row >= 0 ? 1 : 0});
    for (int64_t p = a.fed; p < a.fed + a.take; ++p) {
      ids_.push_back(a.context[static_cast<size_t>(p)]);
      positions_.push_back(static_cast<int32_t>(p));
    }
    b.max_position = std::max(b.max_position, a.fed + a.take);
    if (a.row >= 0) logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
  }
  b.tokens = static_cast<int64_t>(ids_.size());
  b.ids = view(ids_);
  b.positions = view(positions_);
  b.logit_rows = view(logit_rows_);  // empty while no prompt is complete
  b.segments = cache_.segments();
  for (const Active* a : all)
    if (a->take > 0) b.lengths.push_back(a->length);
  b.cache = &cache_;
  model_ranks_.forward(b);
}

// Returns the next token of every row with logits, or marks the row as failed.
std::vector<Batcher::Choice> Batcher::choose(const std::vector<const Active*>& of, std::vector<NewToken>& tokens) {
  std::vector<Choice> choices(of.size());
  if (model_ranks_.decides() && !of.empty()) decide(of, choices, tokens);
  model_ranks_.share(choices.data(), static_cast<int64_t>(choices.size() * sizeof(Choice)));
  for (size_t r = 0; r < of.size() && !model_ranks_.alone(); ++r) {
    if (!choices[r].failed) continue;
    const std::string why = model_ranks_.share_text(tokens[r].failure ? failure_text(tokens[r].failure) : "");
    if (!tokens[r].failure) tokens[r].failure = std::make_exception_ptr(Error(why));
  }
  return choices;
}

void Batcher::decide(const std::vector<const Active*>& of, std::vector<Choice>& choices, std::vector<NewToken>& tokens) {
  const TensorView logits = ctx_.outputs().at("logits").view();
  std::vector<int32_t> ids(of.size());
  std::vector<double> losses(of.size());
  // An exception in one row ends the sequence of this row; the other rows continue.
  auto of_its_own = [&](size_t r, auto&& f) {
    if (choices[r].failed) return;
    try {
      f();
    } catch (const std::exception&) {
      choices[r].failed = 1, tokens[r].failure = std::current_exception();
    }
  };
  parallel_for(static_cast<int64_t>(of.size()), [&](int64_t row) {
    const auto r = static_cast<size_t>(row);
    of_its_own(r, [&] { ids[r] = choose_one(*of[r], logits, row); });
  });
  const Shape rows{static_cast<int64_t>(of.size())};
  ctx_.call(CrossEntropy{.logits = logits, .labels = view(ids), .losses = view_of(losses.data(), DType::f64, rows)});
  for (size_t r = 0; r < of.size(); ++r)
    of_its_own(r, [&] {
      const auto row = static_cast<int64_t>(r);
      if (!std::isfinite(losses[r])) refuse(of[r]->of, of[r]->context.size(), scores_of(logits, row));
      choices[r].id = ids[r], choices[r].logprob = -losses[r];
      if (const int64_t count = of[r]->options().alternatives; count > 0) {
        const std::vector<float> scores = scores_of(logits, row);
        tokens[r].best = best_of(scores, count, static_cast<double>(scores[static_cast<size_t>(ids[r])]) + losses[r]);
      }
    });
}

// Chooses the token of a row. Host work: sampling. If a score is not finite, the result has no meaning; the caller
// checks the loss of the row.
int32_t Batcher::choose_one(const Active& a, const TensorView& logits, int64_t row) const {
  const GenerateOptions& o = a.options();
  if (!o.sample && !changes_best(o.processing) && logits.dtype == DType::f32)
    return index_of_largest({logits.row<float>(row), static_cast<size_t>(logits.cols())});
  std::vector<float> scores = scores_of(logits, row);
  refuse(a.of, a.context.size(), scores);
  process(scores, a.context, o.processing, o.sample, a.prompt);
  return o.sample ? choose_at_random(scores, o.seed, a.of.number, a.context.size()) : choose_best(scores);
}

}  // namespace ravine
