#include "infer/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "base/philox.h"

namespace ravine {
namespace {

constexpr float kNever = -1e9f;  // the score that Transformers gives to a token that must not be chosen

// Returns the indices of the `count` largest values, largest first; of equal values the lower index comes first.
template <class T, class F>
std::vector<size_t> largest(const std::vector<T>& v, size_t count, F&& value) {
  std::vector<size_t> order(v.size());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](size_t a, size_t b) { return value(v[a]) != value(v[b]) ? value(v[a]) > value(v[b]) : a < b; });
  order.resize(count);
  return order;
}

void to_log_softmax(std::vector<float>& row) {
  double top = *std::max_element(row.begin(), row.end()), sum = 0;
  for (float x : row) sum += std::exp(x - top);
  double shift = top + std::log(sum);
  for (float& x : row) x = static_cast<float>(x - shift);
}

}  // namespace

BeamSearch::BeamSearch(const BeamOptions& beams, const GenerateOptions& options, const std::vector<int32_t>& prompt,
                       int64_t limit, uint64_t prompt_number, int64_t vocabulary)
    : options_(beams),
      generate_(options),
      prompt_size_(prompt.size()),
      limit_(limit),
      vocabulary_(vocabulary),
      prompt_number_(prompt_number) {
  require(beams.beams >= 1 && limit > static_cast<int64_t>(prompt.size()), "beam_search: {} beams, {} tokens of at most {}",
          beams.beams, prompt.size(), limit);
  // All beams begin as the prompt. Only the first has a score above kNever; otherwise all beams would continue with the
  // same tokens.
  for (int64_t i = 0; i < beams.beams; ++i) live_.push_back({prompt, i == 0 ? 0.0f : kNever, 0, false});
  if (beams.rules == BeamRules::transformers)
    finished_.assign(static_cast<size_t>(beams.beams), Sequence{prompt, kNever, 0, false});
  else
    live_.resize(1);
}

bool BeamSearch::ends(int32_t id) const {
  return std::find(generate_.end_ids.begin(), generate_.end_ids.end(), id) != generate_.end_ids.end();
}

double BeamSearch::worth(double length) const { return std::pow(length, options_.length_penalty); }

void BeamSearch::score(std::vector<std::vector<float>>& rows, std::vector<std::vector<float>>& raw) const {
  const bool modellink = options_.rules == BeamRules::modellink;
  Processing p = generate_.processing;
  if (!modellink) p.least_kept = std::max<int64_t>(2, 1 + static_cast<int64_t>(generate_.end_ids.size()));
  raw.resize(rows.size());
  parallel_for(static_cast<int64_t>(rows.size()), [&](int64_t i) {
    std::vector<float>& row = rows[static_cast<size_t>(i)];
    const Sequence& s = live_[static_cast<size_t>(i)];
    for (size_t v = 0; v < row.size(); ++v)
      require(std::isfinite(row[v]), "generate: the model gives {} for token {} at position {}", row[v], v, s.tokens.size());
    std::vector<float>& own = raw[static_cast<size_t>(i)] = row;
    to_log_softmax(own);
    if (modellink) {
      if (p.repetition_penalty != 1) penalize_repetition(row, s.tokens, p.repetition_penalty);
      if (p.no_repeat_ngram > 0) forbid_repeated_ngrams(row, s.tokens, p.no_repeat_ngram);
      if (p.temperature == 0)
        for (float& x : row) x *= 10000;
      else
        apply_temperature(row, p.temperature);
      if (p.top_k > 1 && p.top_p > 0) {
        keep_top_k(row, p.top_k);
        if (p.top_p < 1) keep_top_p(row, p.top_p);
      }
      to_log_softmax(row);
    } else {
      row = own;
      process(row, s.tokens, p, generate_.sample);
    }
    for (float& x : row) x += s.score;
  });
}

std::vector<BeamSearch::Candidate> BeamSearch::best_candidates(const std::vector<std::vector<float>>& rows,
                                                               int64_t count) const {
  std::vector<std::vector<Candidate>> of(rows.size());
  parallel_for(static_cast<int64_t>(rows.size()), [&](int64_t b) {
    const std::vector<float>& row = rows[static_cast<size_t>(b)];
    for (size_t i : largest(row, static_cast<size_t>(count), [](float x) { return x; }))
      of[static_cast<size_t>(b)].push_back({b, static_cast<int32_t>(i), row[i]});
  });
  std::vector<Candidate> all, best;
  for (auto& o : of) all.insert(all.end(), o.begin(), o.end());
  for (size_t i : largest(all, static_cast<size_t>(count), [](const Candidate& c) { return c.score; })) best.push_back(all[i]);
  return best;
}

// Draws up to `count` different candidates from softmax(rows). total: the sum of e^score before the first draw.
std::vector<BeamSearch::Candidate> BeamSearch::draw_candidates(const std::vector<std::vector<float>>& rows, int64_t count,
                                                               double& total) const {
  float top = -INFINITY;
  for (auto& row : rows) top = std::max(top, *std::max_element(row.begin(), row.end()));
  require(top > -INFINITY, "generate: no token is left to choose for prompt {}", prompt_number_ + 1);
  std::vector<double> weight;
  std::vector<double> of_beam(rows.size(), 0);
  weight.reserve(rows.size() * rows[0].size());
  for (size_t b = 0; b < rows.size(); ++b)
    for (float x : rows[b]) weight.push_back(std::exp(static_cast<double>(x) - top)), of_beam[b] += weight.back();
  total = std::accumulate(of_beam.begin(), of_beam.end(), 0.0) * std::exp(static_cast<double>(top));
  const size_t width = rows[0].size();
  std::vector<Candidate> drawn;
  for (int64_t d = 0; d < count; ++d) {
    auto words = philox(philox_key(generate_.seed, "beams"),
                        {static_cast<uint32_t>(step_), static_cast<uint32_t>(d), static_cast<uint32_t>(prompt_number_),
                         static_cast<uint32_t>(prompt_number_ >> 32)});
    double uniform = static_cast<double>(uint64_t{words[0]} << 21 | words[1] >> 11) * 0x1p-53;
    for (size_t b = 0; b < rows.size(); ++b)
      of_beam[b] = std::accumulate(weight.begin() + static_cast<std::ptrdiff_t>(b * width),
                                   weight.begin() + static_cast<std::ptrdiff_t>((b + 1) * width), 0.0);
    double target = uniform * std::accumulate(of_beam.begin(), of_beam.end(), 0.0);
    size_t last = weight.size(), b = 0;  // last: the last candidate that can be drawn, if rounding leaves none chosen
    while (b + 1 < rows.size() && target >= of_beam[b]) target -= of_beam[b++];
    double sum = 0;
    size_t chosen = weight.size();
    for (size_t i = b * width; i < weight.size() && chosen == weight.size(); ++i) {
      if (weight[i] == 0) continue;
      last = i;
      if (target < (sum += weight[i])) chosen = i;
    }
    if (chosen == weight.size()) chosen = last;
    if (chosen == weight.size()) break;  // no candidate is left
    weight[chosen] = 0;
    drawn.push_back(
        {static_cast<int64_t>(chosen / width), static_cast<int32_t>(chosen % width), rows[chosen / width][chosen % width]});
  }
  return drawn;
}

BeamSearch::Sequence BeamSearch::extend(const Candidate& c) const {
  Sequence s = live_[static_cast<size_t>(c.beam)];
  s.tokens.push_back(c.id);
  s.score = c.score;
  s.logprob += c.logprob;
  return s;
}

int64_t BeamSearch::most_candidates() const {
  return std::max<int64_t>(2, 1 + static_cast<int64_t>(generate_.end_ids.size())) * options_.beams;
}

std::vector<BeamSearch::Candidate> BeamSearch::weigh(std::vector<std::vector<float>> logits) const {
  require(!done_ && static_cast<int64_t>(logits.size()) == (first() ? 1 : live()),
          "beam_search: logits of {} beams, {} are live", logits.size(), live());
  for (auto& row : logits) require(static_cast<int64_t>(row.size()) == vocabulary_, "beam_search: {} logits", row.size());
  if (first()) logits.resize(live_.size(), logits[0]);
  std::vector<std::vector<float>> raw;
  score(logits, raw);
  double total = 0;
  std::vector<Candidate> candidates;
  if (generate_.sample) {
    candidates = draw_candidates(logits, most_candidates(), total);
    // ModelLink draws only if the sum of e^score is between these bounds.
    if (options_.rules == BeamRules::modellink && !(total > 1e-5 && total < 1)) candidates.clear();
  }
  if (candidates.empty()) candidates = best_candidates(logits, most_candidates());
  for (Candidate& c : candidates) c.logprob = raw[static_cast<size_t>(c.beam)][static_cast<size_t>(c.id)];
  return candidates;
}

void BeamSearch::follow(const std::vector<Candidate>& candidates) {
  require(!done_ && !candidates.empty(), "beam_search: there is nothing to follow");
  if (options_.rules == BeamRules::modellink)
    follow_modellink(candidates);
  else
    follow_transformers(candidates);
}

void BeamSearch::follow_transformers(const std::vector<Candidate>& candidates) {
  const auto beams = static_cast<size_t>(options_.beams);
  const bool at_limit = static_cast<int64_t>(prompt_size_) + step_ + 1 >= limit_;
  const bool frozen =
      !improvable_ || (options_.early_stopping == EarlyStop::yes &&
                       std::all_of(finished_.begin(), finished_.end(), [](const Sequence& s) { return s.finished; }));
  std::vector<Sequence> next, merged = finished_;
  std::vector<float> running;
  bool all_hit = true;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    const bool hit = at_limit || ends(c.id);
    all_hit = all_hit && hit;
    running.push_back(hit ? c.score + kNever : c.score);
    if (!hit || i >= beams || frozen) continue;
    Sequence s = extend(c);
    s.finished = true;
    s.score = c.score / static_cast<float>(worth(static_cast<double>(step_ + 1)));
    merged.push_back(std::move(s));
  }
  std::vector<Sequence> kept;
  for (size_t i : largest(merged, beams, [](const Sequence& s) { return s.score; })) kept.push_back(merged[i]);
  parents_.clear();
  for (size_t i : largest(running, beams, [](float x) { return x; })) {
    next.push_back(extend(candidates[i]));
    next.back().score = running[i];
    parents_.push_back(candidates[i].beam);
  }
  live_ = std::move(next);
  finished_ = std::move(kept);
  ++step_;
  const double hypothetical = options_.early_stopping == EarlyStop::never && options_.length_penalty > 0
                                  ? static_cast<double>(limit_ - static_cast<int64_t>(prompt_size_))
                                  : static_cast<double>(step_);
  const float possible = live_[0].score / static_cast<float>(worth(hypothetical));
  bool all_finished = true, better = false;
  for (const Sequence& s : finished_) {
    all_finished = all_finished && s.finished;
    better = better || possible > (s.finished ? finished_.back().score : kNever);
  }
  improvable_ = improvable_ && better;
  done_ = !improvable_ || (all_finished && options_.early_stopping == EarlyStop::yes) || all_hit;
}

void BeamSearch::add_hypothesis(Sequence s, int64_t length) {
  s.score = s.score / static_cast<float>(worth(static_cast<double>(length)));
  s.finished = true;
  auto insert_at = std::find_if(finished_.begin(), finished_.end(), [&](const Sequence& f) { return s.score > f.score; });
  finished_.insert(insert_at, std::move(s));
  if (static_cast<int64_t>(finished_.size()) > options_.beams) finished_.pop_back();
}

void BeamSearch::follow_modellink(const std::vector<Candidate>& candidates) {
  std::vector<Sequence> next;
  parents_.clear();
  ++step_;
  float best = -INFINITY;
  for (const Candidate& c : candidates) best = std::max(best, c.score);
  for (size_t i = 0; i < candidates.size() && static_cast<int64_t>(next.size()) < options_.beams; ++i) {
    const Candidate& c = candidates[i];
    if (!ends(c.id)) {
      next.push_back(extend(c));
      parents_.push_back(c.beam);
    } else if (static_cast<int64_t>(i) < options_.beams) {
      add_hypothesis(extend(c), step_);
    }
  }
  live_ = std::move(next);
  done_ = static_cast<int64_t>(finished_.size()) == options_.beams &&
          finished_.back().score >= best / static_cast<float>(worth(static_cast<double>(step_)));
  if (done_ || static_cast<int64_t>(prompt_size_) + step_ < limit_) return;
  for (Sequence& s : live_) add_hypothesis(s, step_);
  done_ = true;
}

std::vector<Beam> BeamSearch::best(int64_t count) const {
  std::vector<Sequence> all;
  for (const Sequence& s : finished_)
    if (s.finished) all.push_back(s);
  if (!done_)
    for (Sequence s : live_)
      if (s.score > kNever / 2 && step_ > 0)
        s.score /= static_cast<float>(worth(static_cast<double>(step_))), all.push_back(std::move(s));
  std::vector<Beam> out;
  for (size_t i : largest(all, static_cast<size_t>(count), [](const Sequence& s) { return s.score; }))
    out.push_back({{all[i].tokens.begin() + static_cast<std::ptrdiff_t>(prompt_size_), all[i].tokens.end()},
                   all[i].score,
                   all[i].logprob});
  return out;
}

}  // namespace ravine
