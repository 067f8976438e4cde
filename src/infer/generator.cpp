#include "infer/generator.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "infer/kv_cache.h"
#include "infer/sampler.h"
#include "infer/speakers.h"
#include "infer/team.h"

namespace ravine {

std::string_view name(Finish f) {
  constexpr std::string_view names[] = {"eos", "length", "stop"};
  return names[static_cast<int>(f)];
}

int64_t length_limit(const std::vector<int32_t>& prompt, const GenerateOptions& o) {
  int64_t length = static_cast<int64_t>(prompt.size()), limit = length + o.max_new_tokens;
  return o.max_length > 0 ? std::min(limit, o.max_length) : limit;
}

namespace {

// Prompt `i` of `where`.
void check_prompt(const std::vector<int32_t>& prompt, size_t i, const ModelFacts& facts, const GenerateOptions& o,
                  const std::string& where) {
  require(o.max_new_tokens >= 1 && o.batch >= 1 && o.step_tokens >= 1,
          "generate: max_new_tokens, batch and step_tokens must be above 0, got {}, {}, {}", o.max_new_tokens, o.batch,
          o.step_tokens);
  auto place = [&] { return fmt::format("{}, prompt {}", where, o.number(i) + 1); };
  int64_t length = static_cast<int64_t>(prompt.size()), limit = length_limit(prompt, o);
  if (length == 0)
    throw UserError("a prompt without tokens", place(), "the model needs at least one token to go on from",
                    "write something there");
  for (int32_t id : prompt)
    if (id < 0 || id >= facts.vocabulary)
      throw UserError(fmt::format("token {}", id), place(),
                      fmt::format("ids must be 0 or more, and below vocab_size = {}", facts.vocabulary),
                      "use the model's tokenizer");
  if (facts.max_positions > 0 && std::max(limit, length + 1) > facts.max_positions)
    throw UserError(fmt::format("{} tokens and {} new ones", length, std::max<int64_t>(limit - length, 1)), place(),
                    fmt::format("the model has max_position_embeddings = {}", facts.max_positions),
                    length < facts.max_positions ? fmt::format("use --max-new-tokens {} or less", facts.max_positions - length)
                                                 : "shorten the prompt");
  if (limit <= length)
    throw UserError(fmt::format("a prompt of {} tokens", length), place(),
                    fmt::format("max_length = {} leaves no room for a new one", o.max_length),
                    "use --max-new-tokens, which counts new tokens only");
}

}  // namespace

void check_prompts(const std::vector<std::vector<int32_t>>& prompts, const ModelFacts& facts, const GenerateOptions& o,
                   const std::string& where) {
  for (size_t i = 0; i < prompts.size(); ++i) check_prompt(prompts[i], i, facts, o, where);
}

void check_prompts(std::span<const Speaker> speakers, std::span<const size_t> of,
                   const std::vector<std::vector<int32_t>>& prompts, const std::string& where) {
  require(of.size() == prompts.size(), "generate: {} speakers of {} prompts", of.size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i)
    check_prompt(prompts[i], i, speakers[of[i]].session->model->facts(), speakers[of[i]].options, where);
}

namespace {

using Prompts = std::vector<std::vector<int32_t>>;

// A sequence at work.
struct Active {
  size_t prompt = 0;
  int64_t slot = 0, fed = 0, limit = 0, take = 0;  // take: tokens of it in this step
  int64_t length = 0;                              // of the context when the model last ran
  int64_t row = -1;                                // of its logits in this step; -1: none
  std::vector<int32_t> context;
  int64_t pending() const { return static_cast<int64_t>(context.size()) - fed; }
};

struct Choice {
  int32_t id = 0;
  double logprob = 0;
};

class Run {
 public:
  Run(const Speakers& speakers, const Prompts& prompts, const GenerateOptions& shared, const GenerateEvents& events)
      : speakers_(speakers),
        session_(speakers.session()),
        prompts_(prompts),
        shared_(shared),
        events_(events),
        results_(prompts.size()),
        ctx_(setup()),
        team_(session_, ctx_),
        cache_(team_.layers(), team_.cache_widths(), session_.types.compute,
               std::min<int64_t>(shared.batch, static_cast<int64_t>(prompts.size())), session_.spread.local) {
    for (int64_t s = cache_.slots(); s-- > 0;) free_.push_back(s);
    for (size_t i = 0; i < prompts.size(); ++i) longest_ = std::max(longest_, length_limit(prompts[i], speakers.options(i)));
  }

  std::vector<Generated> all() {
    while (admit()) {
      if (team_.any(events_.stop && events_.stop())) {
        for (Active& a : active_) finish(a, Finish::stop);
        break;
      }
      forward();
      std::vector<Choice> choices = choose();
      for (Active& a : active_) {
        a.fed += a.take;
        if (a.row >= 0) take(a, choices[static_cast<size_t>(a.row)]);
      }
      std::erase_if(active_, [](const Active& a) { return a.slot < 0; });
    }
    return std::move(results_);
  }

 private:
  Ctx::Setup setup() {
    Ctx::Setup s = session_.setup(arena_);
    s.recipe = shared_.recipe;
    if (shared_.observer) s.observers.push_back(shared_.observer);
    return s;
  }

  bool admit() {
    for (; !free_.empty() && next_ < prompts_.size(); ++next_) {
      Active a;
      a.prompt = next_;
      a.slot = free_.back();
      a.limit = length_limit(prompts_[next_], speakers_.options(next_));
      a.context = prompts_[next_];
      free_.pop_back();
      results_[next_].begun = true;
      active_.push_back(std::move(a));
    }
    if (speakers_.several())  // rows of one speaker lie together
      std::stable_sort(active_.begin(), active_.end(),
                       [&](const Active& a, const Active& b) { return speakers_.at(a.prompt) < speakers_.at(b.prompt); });
    return !active_.empty();
  }

  // One pass of the model over what is pending; sets take and row.
  void forward() {
    int64_t budget = shared_.step_tokens, room = 0, rows = 0;
    for (Active& a : active_) {
      const auto length = static_cast<int64_t>(a.context.size());
      if (team_.rotates_anew(a.length, length)) cache_.clear(a.slot), a.fed = 0;
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
    for (const Active& a : active_) {
      if (a.take == 0) continue;
      const auto row = static_cast<int64_t>(ids_.size());
      cache_.extend(a.slot, row, a.take);
      speakers_.add_rows(b, a.prompt, row, a.take, static_cast<int64_t>(logit_rows_.size()), a.row >= 0 ? 1 : 0);
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
    b.logit_rows = view(logit_rows_);  // none while all prompts are still being read
    b.segments = cache_.segments();
    for (const Active& a : active_)
      if (a.take > 0) b.lengths.push_back(a.length);
    b.cache = &cache_;
    team_.forward(b);
  }
  static TensorView view(std::vector<int32_t>& v) { return view_of(v.data(), DType::i32, {static_cast<int64_t>(v.size())}); }

  // The next token of every row with logits.
  std::vector<Choice> choose() {
    std::vector<const Active*> of;
    for (const Active& a : active_)
      if (a.row >= 0) of.push_back(&a);
    std::vector<Choice> choices(of.size());
    if (team_.decides() && !of.empty()) decide(of, choices);
    team_.share(choices.data(), static_cast<int64_t>(choices.size() * sizeof(Choice)));
    return choices;
  }

  void decide(const std::vector<const Active*>& of, std::vector<Choice>& choices) {
    const TensorView logits = ctx_.outputs().at("logits").view();
    std::vector<int32_t> ids(of.size());
    std::vector<double> losses(of.size());
    parallel_for(static_cast<int64_t>(of.size()),
                 [&](int64_t r) { ids[static_cast<size_t>(r)] = choose_one(*of[static_cast<size_t>(r)], logits, r); });
    const Shape rows{static_cast<int64_t>(of.size())};
    ctx_.call(CrossEntropy{.logits = logits, .labels = view(ids), .losses = view_of(losses.data(), DType::f64, rows)});
    for (size_t r = 0; r < of.size(); ++r) {
      if (!std::isfinite(losses[r])) refuse(*of[r], scores_of(logits, static_cast<int64_t>(r)));
      choices[r] = {ids[r], -losses[r]};
    }
  }

  // Host work: what is done to scores and draws is by the rules of sampling (infer/sampler.h).
  static std::vector<float> scores_of(const TensorView& logits, int64_t row) {
    std::vector<float> scores(static_cast<size_t>(logits.cols()));
    visit_float(logits.dtype, [&](auto zero) {
      const auto* from = logits.row<decltype(zero)>(row);
      for (size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(from[i]);
    });
    return scores;
  }

  // Names the first score that is not a finite number.
  void refuse(const Active& a, std::span<const float> scores) const {
    for (size_t i = 0; i < scores.size(); ++i)
      require(std::isfinite(scores[i]), "generate: the model gives {} for token {} at position {} of prompt {}", scores[i], i,
              a.context.size(), speakers_.options(a.prompt).number(a.prompt) + 1);
  }

  // Host work, as above. Where a score is not finite, what comes out has no meaning, and neither has its probability.
  int32_t choose_one(const Active& a, const TensorView& logits, int64_t row) const {
    const GenerateOptions& o = speakers_.options(a.prompt);
    if (!o.sample && o.processing.repetition_penalty == 1 && o.processing.no_repeat_ngram == 0 && logits.dtype == DType::f32)
      return index_of_largest({logits.row<float>(row), static_cast<size_t>(logits.cols())});
    std::vector<float> scores = scores_of(logits, row);
    refuse(a, scores);
    process(scores, a.context, o.processing, o.sample);
    return o.sample ? choose_at_random(scores, o.seed, o.number(a.prompt), a.context.size()) : choose_best(scores);
  }

  void take(Active& a, const Choice& c) {
    Generated& g = results_[a.prompt];
    const std::vector<int32_t>& end_ids = speakers_.options(a.prompt).end_ids;
    a.context.push_back(c.id);
    g.ids.push_back(c.id);
    g.logprob += c.logprob;
    bool go_on = !events_.token || events_.token(a.prompt, c.id);
    if (std::find(end_ids.begin(), end_ids.end(), c.id) != end_ids.end())
      finish(a, Finish::eos);
    else if (!go_on)
      finish(a, Finish::stop);
    else if (static_cast<int64_t>(a.context.size()) >= a.limit)
      finish(a, Finish::length);
  }

  void finish(Active& a, Finish how) {
    results_[a.prompt].finish = how;
    cache_.clear(a.slot);
    free_.push_back(std::exchange(a.slot, -1));
    if (events_.finished) events_.finished(a.prompt, results_[a.prompt]);
  }

  const Speakers& speakers_;
  const Session& session_;
  const Prompts& prompts_;
  const GenerateOptions& shared_;
  const GenerateEvents& events_;
  std::vector<Generated> results_;
  HeapArena arena_;
  Ctx ctx_;
  Team team_;
  SlotCache cache_;
  std::vector<int64_t> free_;
  std::vector<Active> active_;
  size_t next_ = 0;
  int64_t longest_ = 0;
  Batch batch_;
  std::vector<int32_t> ids_, positions_, logit_rows_;
};

}  // namespace

std::vector<Generated> generate(const Session& session, const Prompts& prompts, const GenerateOptions& options,
                                const GenerateEvents& events, const std::string& where) {
  const Speaker speaker{&session, options};
  return generate({&speaker, 1}, std::vector<size_t>(prompts.size()), prompts, events, where);
}

std::vector<Generated> generate(std::span<const Speaker> speakers, std::span<const size_t> of, const Prompts& prompts,
                                const GenerateEvents& events, const std::string& where) {
  check_prompts(speakers, of, prompts, where);
  if (prompts.empty()) return {};
  return Run(Speakers(speakers, of), prompts, speakers[0].options, events).all();
}

}  // namespace ravine
