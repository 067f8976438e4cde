#include "infer/beams.h"

#include <algorithm>
#include <list>

#include "base/failure_text.h"
#include "infer/kv_cache.h"
#include "infer/model_ranks.h"
#include "infer/prompt_models.h"

namespace ravine {
namespace {

using Prompts = std::vector<std::vector<int32_t>>;

// A prompt whose search is running.
struct ActiveSearch {
  size_t prompt;
  BeamSearch search;
  std::vector<int64_t> slots;  // slots of the live beams; during prefill only the first is used
  std::vector<int64_t> spare;
  // fed: tokens of each beam in the cache; take: tokens of each beam in this step; row: its first row of logits, or -1
  int64_t fed = 0, take = 0, row = -1;
  int64_t length = 0;          // tokens of each beam when the model last ran
  size_t candidates_at = 0;    // index of its candidates among the prompts of this step
  std::exception_ptr failure;  // error of this step
};

class BeamRun {
 public:
  BeamRun(const PromptModels& prompt_models, std::span<const BeamOptions> beams, const Prompts& prompts,
          const GenerateOptions& shared, int64_t num_return, const GenerateEvents& events)
      : prompt_models_(prompt_models),
        loaded_(prompt_models.loaded()),
        prompts_(prompts),
        shared_(shared),
        beams_(beams),
        width_(beams[0].beams),
        num_return_(num_return),
        events_(events),
        results_(prompts.size()),
        ctx_(setup()),
        model_ranks_(loaded_, ctx_),
        cache_(model_ranks_.layers(), model_ranks_.cache_widths(), loaded_.types.compute,
               std::min<int64_t>(shared.batch, static_cast<int64_t>(prompts.size())) * width_, loaded_.spread.ranks_per_host) {
    for (int64_t s = cache_.slots(); s-- > 0;) free_.push_back(s);
    for (size_t i = 0; i < prompts.size(); ++i)
      longest_ = std::max(longest_, length_limit(prompts[i], prompt_models.options(i)));
  }

  std::vector<Generated> all() {
    while (admit()) {
      if (model_ranks_.any(events_.stop && events_.stop())) {
        for (ActiveSearch& a : active_) finish(a, true);
        break;
      }
      forward();
      weigh();
      for (ActiveSearch& a : active_) {
        a.fed += a.take;
        if (a.row >= 0) advance(a);
      }
      std::erase_if(active_, [](const ActiveSearch& a) { return a.slots.empty(); });
    }
    return std::move(results_);
  }

 private:
  const ModelFacts& facts() const { return loaded_.model->facts(); }
  Ctx::Setup setup() {
    Ctx::Setup s = loaded_.setup(arena_);
    s.recipe = shared_.recipe;
    if (shared_.observer) s.observers.push_back(shared_.observer);
    return s;
  }

  bool admit() {
    for (; static_cast<int64_t>(free_.size()) >= width_ && next_ < prompts_.size(); ++next_) {
      const std::vector<int32_t>& prompt = prompts_[next_];
      const GenerateOptions& o = prompt_models_.options(next_);
      ActiveSearch a{
          next_,
          BeamSearch(beams_[prompt_models_.at(next_)], o, prompt, length_limit(prompt, o), o.number(next_), facts().vocabulary),
          {},
          {}};
      a.slots.push_back(free_.back()), free_.pop_back();
      for (int64_t i = 1; i < width_; ++i) a.spare.push_back(free_.back()), free_.pop_back();
      results_[next_].begun = true;
      active_.push_back(std::move(a));
    }
    if (prompt_models_.several())  // keeps the rows of one prompt model adjacent
      active_.sort([&](const ActiveSearch& a, const ActiveSearch& b) {
        return prompt_models_.at(a.prompt) < prompt_models_.at(b.prompt);
      });
    return !active_.empty();
  }

  // Runs the model once: over the next tokens of prompts in prefill, and over one token of every live beam of the
  // others.
  void forward() {
    int64_t budget = shared_.step_tokens, room = 0, rows = 0;
    for (ActiveSearch& a : active_) {
      const auto length = static_cast<int64_t>(a.search.tokens(0).size());
      const auto beams = static_cast<int64_t>(a.slots.size());
      if (model_ranks_.invalidates_cache(a.length, length)) {
        for (const int64_t slot : a.slots) cache_.clear(slot);
        a.fed = 0;
      }
      a.length = length;
      const bool reading = a.search.first() || length - a.fed > 1;
      a.take = reading ? std::min(length - a.fed, std::max<int64_t>(budget > 0, budget / beams)) : 1;
      if (reading) budget = std::max<int64_t>(0, budget - a.take * beams);
      const bool logits = a.fed + a.take == length && a.take > 0;
      a.row = logits ? rows : -1;
      if (logits) rows += static_cast<int64_t>(a.slots.size());
      room = std::max(room, a.fed + a.take);
    }
    cache_.begin_step(room, longest_);
    ids_.clear(), positions_.clear(), logit_rows_.clear();
    Batch& b = batch_;
    b = {};
    for (const ActiveSearch& a : active_) {
      if (a.take == 0) continue;
      for (size_t beam = 0; beam < a.slots.size(); ++beam) {
        const auto row = static_cast<int64_t>(ids_.size());
        cache_.extend(a.slots[beam], row, a.take);
        add_adapter_rows(b, prompt_models_.loaded(), *prompt_models_.prompt_model(a.prompt).loaded,
                         {row, a.take, static_cast<int64_t>(logit_rows_.size()), a.row >= 0 ? 1 : 0});
        for (int64_t p = a.fed; p < a.fed + a.take; ++p) {
          ids_.push_back(a.search.tokens(static_cast<int64_t>(beam))[static_cast<size_t>(p)]);
          positions_.push_back(static_cast<int32_t>(p));
        }
        if (a.row >= 0) logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
      }
      b.max_position = std::max(b.max_position, a.fed + a.take);
    }
    b.tokens = static_cast<int64_t>(ids_.size());
    b.ids = view(ids_);
    b.positions = view(positions_);
    b.logit_rows = view(logit_rows_);
    b.segments = cache_.segments();
    for (const ActiveSearch& a : active_)
      if (a.take > 0) b.lengths.insert(b.lengths.end(), a.slots.size(), a.length);
    b.cache = &cache_;
    model_ranks_.forward(b);
  }
  static TensorView view(std::vector<int32_t>& v) { return view_of(v.data(), DType::i32, {static_cast<int64_t>(v.size())}); }

  // Computes the candidates of every prompt with logits on the deciding rank, and sends them to all ranks.
  void weigh() {
    int64_t most = 0, prompts = 0;
    for (const ActiveSearch& a : active_)
      if (a.row >= 0) most = std::max(most, a.search.most_candidates()), ++prompts;
    candidates_.assign(static_cast<size_t>(prompts * most), {});
    counts_.assign(static_cast<size_t>(prompts), 0);
    size_t at = 0;
    for (ActiveSearch& a : active_) {
      if (a.row < 0) continue;
      a.candidates_at = at++;
      if (!model_ranks_.decides()) continue;
      try {
        const std::vector<BeamSearch::Candidate> found = a.search.weigh(logits_of(a));
        std::copy(found.begin(), found.end(), candidates_.begin() + static_cast<std::ptrdiff_t>(a.candidates_at) * most);
        counts_[a.candidates_at] = static_cast<int64_t>(found.size());
      } catch (const std::exception& e) {  // fails this prompt only
        const GenerateOptions& o = prompt_models_.options(a.prompt);
        a.failure = std::make_exception_ptr(Error(fmt::format("{} of {}", e.what(), o.prompt_name(a.prompt))));
        counts_[a.candidates_at] = kFailed;
      }
    }
    model_ranks_.share(counts_.data(), static_cast<int64_t>(counts_.size() * sizeof(int64_t)));
    model_ranks_.share(candidates_.data(), static_cast<int64_t>(candidates_.size() * sizeof(BeamSearch::Candidate)));
    for (ActiveSearch& a : active_) {
      if (a.row < 0 || counts_[a.candidates_at] != kFailed) continue;
      const std::string why = model_ranks_.share_text(failure_text(a.failure));
      if (!a.failure) a.failure = std::make_exception_ptr(Error(why));
    }
  }

  // Copies the logits of a prompt as f32. Host work: beam search (infer/beam_search.h).
  std::vector<std::vector<float>> logits_of(const ActiveSearch& a) {
    const TensorView logits = ctx_.outputs().at("logits").view();
    std::vector<std::vector<float>> rows(a.slots.size(), std::vector<float>(static_cast<size_t>(logits.cols())));
    for (size_t i = 0; i < rows.size(); ++i)
      visit_float(logits.dtype, [&](auto zero) {
        const auto* from = logits.row<decltype(zero)>(a.row + static_cast<int64_t>(i));
        for (size_t v = 0; v < rows[i].size(); ++v) rows[i][v] = static_cast<float>(from[v]);
      });
    return rows;
  }

  void advance(ActiveSearch& a) {
    if (a.failure) {
      if (!events_.failed) std::rethrow_exception(a.failure);
      results_[a.prompt].error = failure_text(a.failure);
      events_.failed(a.prompt, results_[a.prompt].error);
      return finish(a, true);
    }
    const bool first = a.search.first();
    const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(a.candidates_at) * a.search.most_candidates();
    a.search.follow({begin, begin + counts_[a.candidates_at]});
    if (a.search.done()) return finish(a, false);
    std::vector<int64_t> parents = a.search.parents();
    if (first) std::fill(parents.begin(), parents.end(), 0);  // at the first step all beams are copies of the prompt
    move_slots(a, parents);
  }

  // Moves slots to the next beams: the first child of a beam takes its slot. Other children get a copy, in a slot
  // without a child.
  void move_slots(ActiveSearch& a, const std::vector<int64_t>& parents) {
    std::vector<bool> taken(a.slots.size(), false);
    std::vector<int64_t> next(parents.size(), -1), spare = a.spare;
    for (size_t i = 0; i < parents.size(); ++i) {
      const auto p = static_cast<size_t>(parents[i]);
      if (!taken[p]) next[i] = a.slots[p], taken[p] = true;
    }
    for (size_t p = 0; p < a.slots.size(); ++p)
      if (!taken[p]) spare.push_back(a.slots[p]);
    for (size_t i = 0; i < parents.size(); ++i) {
      if (next[i] >= 0) continue;
      next[i] = spare.back(), spare.pop_back();
      cache_.copy(a.slots[static_cast<size_t>(parents[i])], next[i]);
    }
    a.slots = std::move(next), a.spare = std::move(spare);
  }

  void finish(ActiveSearch& a, bool stopped) {
    Generated& g = results_[a.prompt];
    g.beams = a.search.best(num_return_);
    if (!g.beams.empty()) g.ids = g.beams[0].ids, g.logprob = g.beams[0].logprob;
    const std::vector<int32_t>& end_ids = prompt_models_.options(a.prompt).end_ids;
    const bool ended = !g.ids.empty() && std::find(end_ids.begin(), end_ids.end(), g.ids.back()) != end_ids.end();
    g.finish = !g.error.empty() ? Finish::error : ended ? Finish::eos : stopped ? Finish::stop : Finish::length;
    for (int32_t id : g.ids)
      if (events_.token && !events_.token(a.prompt, id)) break;
    for (auto* slots : {&a.slots, &a.spare}) {
      for (int64_t s : *slots) cache_.clear(s), free_.push_back(s);
      slots->clear();
    }
    if (events_.finished) events_.finished(a.prompt, g);
  }

  const PromptModels& prompt_models_;
  const LoadedModel& loaded_;
  const Prompts& prompts_;
  const GenerateOptions& shared_;
  std::span<const BeamOptions> beams_;  // by prompt model
  int64_t width_, num_return_;          // beams of each prompt; beams returned of each prompt
  const GenerateEvents& events_;
  std::vector<Generated> results_;
  HeapArena arena_;
  Ctx ctx_;
  ModelRanks model_ranks_;
  SlotCache cache_;
  std::vector<int64_t> free_;
  std::list<ActiveSearch> active_;
  size_t next_ = 0;
  int64_t longest_ = 0;
  Batch batch_;
  std::vector<BeamSearch::Candidate> candidates_;  // of this step: an equal number of entries for each prompt
  static constexpr int64_t kFailed = -1;
  std::vector<int64_t> counts_;
  std::vector<int32_t> ids_, positions_, logit_rows_;
};

}  // namespace

std::vector<Generated> generate_beams(const LoadedModel& loaded, const Prompts& prompts, const GenerateOptions& options,
                                      const BeamOptions& beams, int64_t num_return, const GenerateEvents& events,
                                      const std::string& where) {
  const PromptModel prompt_model{&loaded, options};
  return generate_beams({&prompt_model, 1}, {&beams, 1}, std::vector<size_t>(prompts.size()), prompts, num_return, events,
                        where);
}

std::vector<Generated> generate_beams(std::span<const PromptModel> prompt_models, std::span<const BeamOptions> beams,
                                      std::span<const size_t> of, const Prompts& prompts, int64_t num_return,
                                      const GenerateEvents& events, const std::string& where) {
  require(beams.size() == prompt_models.size(), "generate: beams of {} for {} models", beams.size(), prompt_models.size());
  for (const BeamOptions& b : beams)
    require(num_return >= 1 && num_return <= b.beams && b.beams == beams[0].beams, "generate: {} results of {} beams",
            num_return, b.beams);
  check_prompts(prompt_models, of, prompts, where);
  if (prompts.empty()) return {};
  return BeamRun(PromptModels(prompt_models, of), beams, prompts, prompt_models[0].options, num_return, events).all();
}

}  // namespace ravine
