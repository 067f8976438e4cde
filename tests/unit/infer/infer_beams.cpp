// Beam search. Decisions are compared with enumeration and with a plain transcription of ModelLink's rules, the run
// with a cache with a run that computes every beam anew. Results of Transformers are in family_golden.cpp.
#include "infer/beams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/json.h"
#include "base/philox.h"
#include "infer/sampler.h"
#include "tests/unit/log_probability.h"
#include "tests/unit/small_models.h"

namespace ravine {
namespace test_infer_beams {

using Tokens = std::vector<int32_t>;

// A "model": logits of the next token follow from its number and the token before, so that no two paths weigh the same.
struct Table {
  int64_t vocabulary;
  uint64_t key;
  std::vector<float> logits(size_t number, int32_t last) const {
    std::vector<float> row;
    for (int64_t j = 0; j < vocabulary; ++j)
      row.push_back(static_cast<float>(6 * uniform24(philox(key, {static_cast<uint32_t>(last), static_cast<uint32_t>(j),
                                                                  static_cast<uint32_t>(number), 0})[0])));
    return row;
  }
  double logprob(size_t number, int32_t last, int32_t id) const { return log_probability(logits(number, last), id); }
};

std::vector<Beam> run(const Table& t, const BeamOptions& b, const GenerateOptions& o, const Tokens& prompt, int64_t count) {
  BeamSearch s(b, o, prompt, static_cast<int64_t>(prompt.size()) + o.max_new_tokens, 0, t.vocabulary);
  while (!s.done()) {
    std::vector<std::vector<float>> rows;
    for (int64_t i = 0; i < (s.first() ? 1 : s.live()); ++i)
      rows.push_back(t.logits(s.tokens(i).size() - prompt.size(), s.tokens(i).back()));
    s.advance(rows);
  }
  return s.best(count);
}

// With as many beams as there are prefixes nothing is lost: the n best of all continuations, in order.
TEST(BeamSearch, FindsTheBestOfAll) {
  Table t{5, 3};
  GenerateOptions o;
  o.max_new_tokens = 3;
  BeamOptions b;
  b.beams = 25;
  std::vector<std::pair<double, Tokens>> all;
  for (int32_t i = 0; i < 5; ++i)
    for (int32_t j = 0; j < 5; ++j)
      for (int32_t k = 0; k < 5; ++k) all.push_back({t.logprob(0, 2, i) + t.logprob(1, i, j) + t.logprob(2, j, k), {i, j, k}});
  std::sort(all.begin(), all.end(), [](auto& x, auto& y) { return x.first > y.first; });
  auto best = run(t, b, o, {4, 2}, 25);
  ASSERT_EQ(best.size(), 25);
  for (size_t i = 0; i < best.size(); ++i) {
    EXPECT_EQ(best[i].ids, all[i].second) << i;
    EXPECT_NEAR(best[i].score, all[i].first / 3, 1e-5);
    EXPECT_NEAR(best[i].logprob, all[i].first, 1e-5);
  }
}

// Logits depend on the position in the continuation and the previous token. So a longer prompt changes neither the
// results nor the end.
TEST(BeamSearch, ThePromptsLengthDecidesNothing) {
  for (uint64_t key = 0; key < 40; ++key)
    for (EarlyStop stop : {EarlyStop::no, EarlyStop::yes, EarlyStop::never})
      for (double penalty : {0.5, 2.0, -1.0})
        for (BeamRules rules : {BeamRules::transformers, BeamRules::modellink}) {
          const Table t{7, key};
          GenerateOptions o;
          o.max_new_tokens = 12;
          o.end_ids = {1, 3};
          const BeamOptions b{.beams = 3, .length_penalty = penalty, .early_stopping = stop, .rules = rules};
          auto outcome = [&](Tokens prompt) {
            BeamSearch s(b, o, prompt, static_cast<int64_t>(prompt.size()) + o.max_new_tokens, 0, t.vocabulary);
            int steps = 0;
            for (; !s.done(); ++steps) {
              std::vector<std::vector<float>> rows;
              for (int64_t i = 0; i < (s.first() ? 1 : s.live()); ++i)
                rows.push_back(t.logits(s.tokens(i).size() - prompt.size(), s.tokens(i).back()));
              s.advance(rows);
            }
            std::string text = fmt::format("{} steps", steps);
            for (const Beam& beam : s.best(3)) text += fmt::format("; {} {}", fmt::join(beam.ids, " "), beam.score);
            return text;
          };
          EXPECT_EQ(outcome({2}), outcome({4, 6, 5, 0, 4, 6, 5, 0, 4, 6, 5, 0, 2}))
              << key << " " << static_cast<int>(stop) << " " << penalty << " " << static_cast<int>(rules);
        }
}

// tools/golden/make_beams.py: the results of Transformers, and its number of steps, for tables whose logits follow from
// whole numbers. Only a positive penalty looks ahead with early_stopping="never".
TEST(BeamSearch, EqualsTransformersWithEveryEarlyStop) {
  const Json all = read_json(RAVINE_SOURCE_DIR "/tests/golden/beams.json");
  const int64_t vocabulary = all["vocabulary"];
  const Tokens prompt = all["prompt"];
  GenerateOptions o;
  o.max_new_tokens = all["new_tokens"];
  o.end_ids = all["end_ids"].get<std::vector<int32_t>>();
  std::map<std::string, std::map<double, int>> differs;  // from "never", by what is asked for
  std::map<std::pair<int, double>, Json> never;
  for (const Json& row : all["rows"])
    if (row[1] == "never") never[{row[0].get<int>(), row[2].get<double>()}] = {row[3], row[4]};
  for (const Json& row : all["rows"]) {
    const uint32_t key = row[0];
    const BeamOptions b{.beams = all["beams"],
                        .length_penalty = row[2],
                        .early_stopping = row[1] == "never" ? EarlyStop::never
                                          : row[1] == true  ? EarlyStop::yes
                                                            : EarlyStop::no};
    BeamSearch s(b, o, prompt, static_cast<int64_t>(prompt.size()) + o.max_new_tokens, 0, vocabulary);
    int steps = 0;
    for (; !s.done(); ++steps) {
      std::vector<std::vector<float>> rows;
      for (int64_t i = 0; i < (s.first() ? 1 : s.live()); ++i) {
        const uint32_t number = static_cast<uint32_t>(s.tokens(i).size() - prompt.size()),
                       last = static_cast<uint32_t>(s.tokens(i).back());
        std::vector<float>& logits = rows.emplace_back();
        for (uint32_t id = 0; id < static_cast<uint32_t>(vocabulary); ++id) {
          uint32_t x = key * 668265263u + number * 374761393u + last * 3266489917u + id * 2246822519u + 1;
          x = (x ^ x >> 15) * 2246822519u;
          x = (x ^ x >> 13) * 3266489917u;
          logits.push_back(static_cast<float>(6.0 * (x >> 8) / (1 << 24)));
        }
      }
      s.advance(rows);
    }
    const std::string what = fmt::format("{}, {}, penalty {}", key, row[1].dump(), b.length_penalty);
    EXPECT_EQ(steps, row[3].get<int>()) << what;
    const std::vector<Beam> best = s.best(b.beams);
    const Json& want = row[4];
    ASSERT_EQ(best.size(), want.size()) << what;
    for (size_t i = 0; i < best.size(); ++i) {
      EXPECT_EQ(best[i].ids, want[i][0].get<Tokens>()) << what << ", beam " << i;
      // Up to 12 f32 sums of log-probabilities of up to 6 each, and a quotient; both sides round.
      const double score = want[i][1];
      EXPECT_NEAR(best[i].score, score, 32 * 0x1p-24 * std::max(1.0, std::abs(score))) << what << ", beam " << i;
    }
    differs[row[1].dump()][b.length_penalty] += never.at({static_cast<int>(key), b.length_penalty}) != Json{row[3], row[4]};
  }
  EXPECT_GT(differs["false"][0.6] + differs["false"][2.0], 0) << "else nothing would tell never from false";
  for (const double penalty : {-1.0, 0.0}) EXPECT_EQ(differs["false"][penalty], 0) << "no length ahead is worth more";
  for (const double penalty : {-1.0, 0.6, 2.0}) EXPECT_GT(differs["true"][penalty], 0) << penalty;
}

TEST(BeamSearch, OneBeamIsGreedy) {
  Table t{31, 4};
  GenerateOptions o;
  o.max_new_tokens = 9;
  o.end_ids = {7};
  BeamOptions b;
  Tokens greedy;
  for (int32_t last = 3; static_cast<int64_t>(greedy.size()) < 9 && (greedy.empty() || last != 7);)
    greedy.push_back(last = choose_best(t.logits(greedy.size(), last)));
  auto best = run(t, b, o, {3}, 1);
  ASSERT_EQ(best.size(), 1);
  EXPECT_EQ(best[0].ids, greedy);
}

// beam_utils.py as docs/howto/generate.md tells it, with plain lists in double.
std::vector<Beam> modellink(const Table& t, const BeamOptions& b, const GenerateOptions& o, const Tokens& prompt) {
  struct Path {
    Tokens ids;
    double sum;
  };
  std::vector<Path> live{{{}, 0}};
  std::vector<std::pair<double, Tokens>> hypotheses;
  auto add = [&](const Path& p, double length) {
    hypotheses.push_back({p.sum / std::pow(length, b.length_penalty), p.ids});
    std::stable_sort(hypotheses.begin(), hypotheses.end(), [](auto& x, auto& y) { return x.first > y.first; });
    if (static_cast<int64_t>(hypotheses.size()) > b.beams) hypotheses.pop_back();
  };
  bool done = false;
  for (int64_t n = 1; n <= o.max_new_tokens && !done; ++n) {
    std::vector<Path> all, next;
    for (const Path& p : live) {
      std::vector<float> row = t.logits(p.ids.size(), p.ids.empty() ? prompt.back() : p.ids.back());
      for (float& x : row) x = static_cast<float>(x / o.processing.temperature);
      std::vector<float> sorted = row;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      double least = sorted[std::min(sorted.size(), static_cast<size_t>(o.processing.top_k)) - 1], sum = 0;
      for (float x : row) sum += x >= least ? std::exp(static_cast<double>(x)) : 0;
      for (size_t v = 0; v < row.size(); ++v)
        if (row[v] >= least) {
          all.push_back({p.ids, p.sum + row[v] - std::log(sum)});
          all.back().ids.push_back(static_cast<int32_t>(v));
        }
    }
    std::stable_sort(all.begin(), all.end(), [](auto& x, auto& y) { return x.sum > y.sum; });
    all.resize(std::min<size_t>(all.size(), static_cast<size_t>(2 * b.beams)));
    for (size_t i = 0; i < all.size() && static_cast<int64_t>(next.size()) < b.beams; ++i) {
      if (all[i].ids.back() != o.end_ids[0])
        next.push_back(all[i]);
      else if (static_cast<int64_t>(i) < b.beams)
        add(all[i], static_cast<double>(n));
    }
    live = next;
    done = static_cast<int64_t>(hypotheses.size()) == b.beams &&
           hypotheses.back().first >= all[0].sum / std::pow(static_cast<double>(n), b.length_penalty);
  }
  if (!done)
    for (const Path& p : live) add(p, static_cast<double>(o.max_new_tokens));
  std::vector<Beam> out;
  for (auto& [score, ids] : hypotheses) out.push_back({ids, score, 0});
  return out;
}

TEST(BeamSearch, ModelLinksRules) {
  int differs = 0;
  for (uint64_t key = 0; key < 40; ++key)
    for (double penalty : {1.0, 0.3, 2.0}) {
      Table t{13, key};
      GenerateOptions o;
      o.max_new_tokens = 8;
      o.end_ids = {5};
      o.processing.temperature = 0.7;
      o.processing.top_k = key % 2 ? 50 : 4;
      BeamOptions b{3, penalty, EarlyStop::no, BeamRules::modellink};
      auto got = run(t, b, o, {2}, 3), want = modellink(t, b, o, {2});
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].ids, want[i].ids) << key << " " << penalty << " " << i;
        EXPECT_NEAR(got[i].score, want[i].score, 1e-4);
      }
      b.rules = BeamRules::transformers;
      differs += run(t, b, o, {2}, 3)[0].ids != got[0].ids;
    }
  EXPECT_GT(differs, 0);  // else the option would say nothing
}

// Every candidate is drawn at most once, by the seed, and the first as softmax says.
TEST(BeamSearch, Draws) {
  Table t{4, 9};
  BeamOptions b;
  b.beams = 2;
  GenerateOptions o;
  o.max_new_tokens = 1;
  o.sample = true;
  std::vector<double> p;
  for (int32_t v = 0; v < 4; ++v) p.push_back(std::exp(t.logprob(0, 1, v)));
  const int draws = 4000;
  std::vector<int> pairs(16, 0);
  for (int seed = 0; seed < draws; ++seed) {
    o.seed = static_cast<uint64_t>(seed);
    auto one = run(t, b, o, {1}, 2), two = run(t, b, o, {1}, 2);
    ASSERT_EQ(one.size(), 2);
    EXPECT_EQ(one[0].ids, two[0].ids);
    EXPECT_NE(one[0].ids, one[1].ids);
    EXPECT_GE(one[0].score, one[1].score);
    ++pairs[static_cast<size_t>(one[0].ids[0] * 4 + one[1].ids[0])];
  }
  // Two draws without putting back: {i, j} comes with p_i p_j (1/(1 - p_i) + 1/(1 - p_j)); five standard deviations.
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = i + 1; j < 4; ++j) {
      double expected = p[i] * p[j] * (1 / (1 - p[i]) + 1 / (1 - p[j]));
      EXPECT_NEAR((pairs[i * 4 + j] + pairs[j * 4 + i]) / static_cast<double>(draws), expected,
                  5 * std::sqrt(expected * (1 - expected) / draws));
    }
}

LoadedModel small_session(const std::string& type) {
  if (type == "llama") {
    Json config = small_llama(64);
    config.erase("tie_word_embeddings");
    return session_of(config);
  }
  return session_of({{"model_type", "bloom"},
                     {"n_embed", 32},
                     {"n_layer", 2},
                     {"n_head", 4},
                     {"vocab_size", 61},
                     {"initializer_range", 0.4}});
}

const std::vector<Tokens> kPrompts = {
    {5}, {1, 2, 3, 4, 5}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11, 12, 13, 14, 15, 16, 17}, {60, 30, 60}, {22, 23}};

TEST(Beams, CachesFollowTheirBeams) {
  for (const char* type : {"llama", "bloom"})
    for (bool sample : {false, true}) {
      LoadedModel s = small_session(type);
      GenerateOptions o;
      o.max_new_tokens = 12;
      o.end_ids = {17, 40};
      o.sample = sample;
      BeamOptions b;
      b.beams = 4;
      b.length_penalty = 0.8;
      std::vector<std::vector<Beam>> want;
      for (size_t i = 0; i < kPrompts.size(); ++i) {
        BeamSearch search(b, o, kPrompts[i], length_limit(kPrompts[i], o), i, 61);
        while (!search.done()) {
          std::vector<std::vector<float>> rows;
          for (int64_t n = 0; n < (search.first() ? 1 : search.live()); ++n) rows.push_back(last_logits(s, search.tokens(n)));
          search.advance(rows);
        }
        want.push_back(search.best(4));
      }
      for (auto [batch, step] : {std::pair<int64_t, int64_t>{1, 1024}, {2, 4}, {5, 1024}}) {
        o.batch = batch;
        o.step_tokens = step;
        size_t finished = 0, tokens = 0;
        GenerateEvents events{[&](size_t, int32_t) { return ++tokens > 0; }, [&](size_t, const Generated&) { ++finished; }, {}};
        auto got = generate_beams(s, kPrompts, o, b, 4, events);
        ASSERT_EQ(got.size(), want.size());
        size_t all = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i].beams.size(), want[i].size());
          for (size_t k = 0; k < want[i].size(); ++k) {
            EXPECT_EQ(got[i].beams[k].ids, want[i][k].ids) << type << " batch " << batch << " prompt " << i << " beam " << k;
            EXPECT_NEAR(got[i].beams[k].score, want[i][k].score, 1e-5);
          }
          EXPECT_EQ(got[i].ids, want[i][0].ids);
          EXPECT_NEAR(got[i].logprob, want[i][0].logprob, 1e-4);
          bool end = got[i].ids.back() == 17 || got[i].ids.back() == 40;
          EXPECT_EQ(got[i].finish, end ? Finish::eos : Finish::length);
          all += got[i].ids.size();
        }
        EXPECT_EQ(finished, kPrompts.size());
        EXPECT_EQ(tokens, all);
      }
    }
}

TEST(Beams, StopGivesWhatIsThere) {
  LoadedModel s = small_session("llama");
  GenerateOptions o;
  o.max_new_tokens = 30;
  o.batch = 1;
  BeamOptions b;
  b.beams = 3;
  int steps = 0;
  auto got = generate_beams(s, kPrompts, o, b, 2, {{}, {}, [&] { return ++steps > 4; }});
  EXPECT_EQ(got[0].finish, Finish::stop);
  EXPECT_EQ(got[0].ids.size(), 4);
  EXPECT_EQ(got[0].beams.size(), 2);
  EXPECT_FALSE(got[1].begun);
}

}  // namespace test_infer_beams
}  // namespace ravine
