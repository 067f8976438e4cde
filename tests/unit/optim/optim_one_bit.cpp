// The mean over ranks as one bit per element, compared with the formula of DeepSpeed's CompressedBackend. The reference
// is plain loops over all ranks at once, in double. Also the bytes sent.
#include "optim/rules/one_bit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "kernels/backend.h"
#include "optim/make_update_rule.h"
#include "optim/optimizer.h"
#include "parallel/flat_store.h"
#include "parallel/stash.h"
#include "tests/unit/rank_threads.h"

namespace ravine {
namespace test_optim_one_bit {

double sign(double x) { return x >= 0 ? 1 : -1; }

double scale_of(const std::vector<double>& x) {
  double squares = 0;
  for (double v : x) squares += v * v;
  return std::sqrt(squares / static_cast<double>(x.size()));
}

// Returns the result on all ranks from each rank's values; updates worker and server errors of all ranks.
std::vector<double> formula(const std::vector<std::vector<double>>& mine, std::vector<std::vector<double>>& worker,
                            std::vector<std::vector<double>>& server) {
  const size_t ranks = mine.size(), all = worker[0].size(), chunk = all / ranks;
  std::vector<double> mean(all), out(all);
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < mine[r].size(); ++i) worker[r][i] += mine[r][i];
    const double scale = scale_of(worker[r]);
    for (size_t i = 0; i < all; ++i) {
      const double sent = scale * sign(worker[r][i]);
      mean[i] += sent / static_cast<double>(ranks);
      worker[r][i] -= sent;
    }
  }
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < chunk; ++i) server[r][i] += mean[r * chunk + i];
    const double scale = scale_of(server[r]);
    for (size_t i = 0; i < chunk; ++i) {
      out[r * chunk + i] = scale * sign(server[r][i]);
      server[r][i] -= out[r * chunk + i];
    }
  }
  return out;
}

TEST(OneBit, PaddingIsThatOfDeepSpeed) {
  EXPECT_EQ(padded_count(1, 1), 8);
  EXPECT_EQ(padded_count(17, 2), 32) << "2 * lcm(2, 8)";
  EXPECT_EQ(padded_count(60, 3), 72) << "3 * 24";
  EXPECT_EQ(padded_count(64, 8), 64);
  EXPECT_EQ(error_count(17, 2), 32 + 16);
  EXPECT_EQ(error_count(17, 1), 0) << "one rank compresses nothing";
}

TEST(OneBit, TheMeanOfTwoCompressions) {
  for (const auto& [type, backend] :
       {std::pair{DType::f64, Backend::ref}, {DType::f32, Backend::ref}, {DType::f32, Backend::cpu}})
    for (int ranks : {1, 2, 3, 4})
      for (int64_t count : {1, 17, 300}) {
        const Kernels kernels = backend_kernels(backend);
        const int64_t all = padded_count(count, ranks);
        std::vector<std::vector<double>> worker(ranks, std::vector<double>(all)),
            server(ranks, std::vector<double>(all / ranks)), mine(ranks, std::vector<double>(count));
        std::vector<std::vector<double>> want;  // by step
        auto number = [](int step, int rank, int64_t i) {
          return static_cast<double>(static_cast<float>(std::sin(3.0 * static_cast<double>(i) + 7 * step + 5 * rank)));
        };
        for (int step = 0; step < 3; ++step) {
          for (int r = 0; r < ranks; ++r)
            for (int64_t i = 0; i < count; ++i) mine[r][i] = number(step, r, i);
          want.push_back(ranks == 1 ? mine[0] : formula(mine, worker, server));
        }
        on_ranks({.data = ranks}, [&](const Ranks& mesh_ranks) {
          HeapArena arena;
          Ctx::Setup s;
          s.kernels = &kernels, s.arena = &arena;
          Ctx c(s);
          const Group& group = mesh_ranks.along(Axis::data);
          Storage errors(DeviceKind::cpu, error_count(count, ranks) * size_of(type)), x(DeviceKind::cpu, count * size_of(type));
          const TensorView kept = view_of(errors.data(), type, {error_count(count, ranks)}),
                           values = view_of(x.data(), type, {count});
          for (int step = 0; step < 3; ++step) {
            for (int64_t i = 0; i < count; ++i) {
              const double v = number(step, mesh_ranks.at().data, i);
              if (type == DType::f64)
                values.as<double>()[i] = v;
              else
                values.as<float>()[i] = static_cast<float>(v);
            }
            const Traffic before = group.traffic();
            const CompressionRoom room(c, count, ranks, type);
            compressed_mean(c, group, room, values, kept);
            EXPECT_EQ(group.traffic().bytes - before.bytes,
                      ranks == 1 ? 0 : 2 * (ranks - 1) * (all / (8 * ranks) + size_of(type)))
                << "bits of all other parts, bits of this part to all others, and two scales";
            for (int64_t i = 0; i < count; ++i) {
              const double got = type == DType::f64 ? values.as<double>()[i] : static_cast<double>(values.as<float>()[i]);
              // Numbers of size 1; a scale is a root of a sum, an error a difference, each rounded once.
              EXPECT_NEAR(got, want[static_cast<size_t>(step)][static_cast<size_t>(i)], 16 * epsilon(type))
                  << ranks << " ranks, " << count << " numbers, step " << step;
            }
          }
        });
      }
}

// The intervals of zeroone_adam equal DeepSpeed's counters, which are computed step by step. Ravine's loops are
// shorter, even for a huge step count in a file.
TEST(OneBit, IntervalsOfZerooneAdam) {
  for (const auto& [freeze, scaler] : {std::pair{2, 1}, {7, 1}, {40, 3}, {1000, 16}}) {
    OptimizerOptions o;
    o.type = OptimizerType::zeroone_adam;
    o.var_freeze_step = freeze, o.var_update_scaler = scaler;
    const auto rule = make_update_rule(o);
    int64_t interval = 1, counted = 0;
    for (int64_t step = 2; step < 300; ++step) {
      const bool frozen = step > freeze + 1;
      EXPECT_EQ(rule->wants_unreduced(step), frozen || step % interval != 0) << freeze << " " << scaler << " " << step;
      if (!frozen && step % interval == 0 && ++counted == scaler) counted = 0, interval *= 2;
    }
    EXPECT_TRUE(rule->wants_unreduced(int64_t{1} << 62));
  }
}

// 0/1 Adam on all ranks at once, in plain lists, as in DeepSpeed's zoadam.py; intervals are computed step by step.
// Errors of compressed gradients are dropped when the variance is frozen: afterwards accumulated changes are
// compressed.
struct ZeroOneFormula {
  ZeroOneFormula(const OptimizerOptions& options, size_t ranks, size_t count, size_t padded)
      : o(options),
        p(ranks, std::vector<double>(count, 1)),
        m(ranks, std::vector<double>(count)),
        direction(m),
        v(count),
        worker(ranks, std::vector<double>(padded)),
        server(ranks, std::vector<double>(padded / ranks)) {}

  void step(int64_t n, const std::vector<std::vector<double>>& grads, double lr, double decay) {
    if (n == 1) return;
    const size_t ranks = p.size(), count = v.size();
    const bool frozen = n > o.var_freeze_step + 1;
    const double b1 = o.betas[0], b2 = o.betas[1];
    if (frozen && ++frozen_steps == 1)
      for (auto* errors : {&worker, &server})
        for (auto& of_rank : *errors) std::fill(of_rank.begin(), of_rank.end(), 0.0);
    const bool exact = !frozen && n % interval == 0, compressed = !frozen && !exact;
    const std::vector<double> sent = compressed ? formula(grads, worker, server) : std::vector<double>();
    for (size_t i = 0; i < count; ++i) {
      double mean = 0;
      for (const auto& g : grads) mean += g[i] / static_cast<double>(ranks);
      if (exact) v[i] = b2 * v[i] + (1 - b2) * mean * mean;
      for (size_t r = 0; r < ranks; ++r) {
        const double g = exact ? mean : compressed ? sent[i] : grads[r][i];
        m[r][i] = b1 * m[r][i] + (1 - b1) * g;
        const double move = -lr * (m[r][i] / (std::sqrt(v[i]) + o.eps[0]) + decay * p[r][i]);
        p[r][i] += move;
        if (frozen) direction[r][i] += move;
      }
    }
    if (exact && ++counted == o.var_update_scaler) counted = 0, interval *= 2;
    if (!frozen) return;
    rates += lr;
    if (n % local_interval == 0) exchange();
    if (frozen_steps % o.local_step_scaler == 0) local_interval = std::min(o.local_step_clipper, 2 * local_interval);
  }

  void exchange() {
    for (size_t r = 0; r < p.size(); ++r)
      for (size_t i = 0; i < v.size(); ++i) p[r][i] -= direction[r][i], direction[r][i] *= std::sqrt(v[i]) + o.eps[0];
    const std::vector<double> mean = formula(direction, worker, server);
    for (size_t r = 0; r < p.size(); ++r)
      for (size_t i = 0; i < v.size(); ++i) {
        m[r][i] = -mean[i] / rates;
        p[r][i] += mean[i] / (std::sqrt(v[i]) + o.eps[0]);
        direction[r][i] = 0;
      }
    rates = 0;
  }

  const OptimizerOptions& o;
  std::vector<std::vector<double>> p, m, direction;  // of each rank
  std::vector<double> v;
  std::vector<std::vector<double>> worker, server;  // errors
  int64_t interval = 1, counted = 0, local_interval = 1, frozen_steps = 0;
  double rates = 0;
};

TEST(OneBit, ZerooneAdamIsItsFormula) {
  constexpr int kRanks = 2, kSteps = 14;
  constexpr int64_t kCount = 17;
  constexpr double kLr = 0.01, kDecay = 0.1;
  OptimizerOptions o;
  o.type = OptimizerType::zeroone_adam;
  o.var_freeze_step = 4, o.var_update_scaler = 1, o.local_step_scaler = 3, o.local_step_clipper = 4;
  const auto padded = static_cast<size_t>(padded_count(kCount, kRanks));
  // Away from zero, so that no quotient magnifies roundings.
  auto gradient = [](int64_t step, int rank, int64_t i) {
    const double sure = (i * 7 + step * 5) % 3 == 0 ? -1.5 : 1.5;
    return sure + 0.3 * std::sin(3.0 * static_cast<double>(i) + 7 * static_cast<double>(step) + 5 * rank);
  };
  ZeroOneFormula want(o, kRanks, kCount, padded);
  std::vector<ZeroOneFormula> at;  // behind each step
  for (int64_t step = 1; step <= kSteps; ++step) {
    std::vector<std::vector<double>> grads(kRanks);
    for (int r = 0; r < kRanks; ++r)
      for (int64_t i = 0; i < kCount; ++i) grads[static_cast<size_t>(r)].push_back(gradient(step, r, i));
    want.step(step, grads, kLr, kDecay);
    at.push_back(want);
  }
  on_ranks({.data = kRanks}, [&](const Ranks& mesh_ranks) {
    const Kernels kernels = ref_kernels();
    HeapArena arena;
    Ctx::Setup s;
    s.kernels = &kernels, s.arena = &arena;
    Ctx c(s);
    const auto rule = make_update_rule(o);
    const auto rank = static_cast<size_t>(mesh_ranks.at().data);
    std::vector<double> p(kCount, 1), g(kCount), m(kCount), v(kCount), direction(kCount), lrs(1),
        own(static_cast<size_t>(rule->own_count(kCount, kRanks)));
    const UpdateSpan span{0, kCount, 1, kDecay};
    auto view = [](std::vector<double>& x) { return view_of(x.data(), DType::f64, {1, static_cast<int64_t>(x.size())}); };
    const UpdateViews views{.param = view(p),
                            .grad = view(g),
                            .states = {view(m), view(v), view(direction), view(lrs)},
                            .spans = {&span, 1},
                            .own = view_of(own.data(), DType::f64, {static_cast<int64_t>(own.size())}),
                            .group = &mesh_ranks.along(Axis::data)};
    for (int64_t step = 1; step <= kSteps; ++step) {
      for (int64_t i = 0; i < kCount; ++i) {
        double& x = g[static_cast<size_t>(i)] = gradient(step, mesh_ranks.at().data, i);
        if (!rule->wants_unreduced(step)) x = (gradient(step, 0, i) + gradient(step, 1, i)) / kRanks;
      }
      rule->update(c, views, step, kLr, 1);
      const ZeroOneFormula& f = at[static_cast<size_t>(step - 1)];
      // Each step rounds a few tens of numbers of at most 8 or so, in the same order but for sums.
      const double bound = 64 * 8 * static_cast<double>(step) * epsilon(DType::f64);
      for (size_t i = 0; i < kCount; ++i) {
        EXPECT_NEAR(p[i], f.p[rank][i], bound) << "step " << step << ", weight " << i;
        EXPECT_NEAR(m[i], f.m[rank][i], bound) << "step " << step << ", m " << i;
        EXPECT_NEAR(v[i], f.v[i], bound) << "step " << step << ", v " << i;
        EXPECT_NEAR(direction[i], f.direction[rank][i], bound) << "step " << step << ", way " << i;
      }
      for (size_t i = 0; i < padded; ++i) EXPECT_NEAR(own[i], f.worker[rank][i], bound) << "step " << step << ", worker " << i;
      for (size_t i = 0; i < padded / kRanks; ++i)
        EXPECT_NEAR(own[padded + i], f.server[rank][i], bound) << "step " << step << ", server " << i;
    }
    EXPECT_EQ(arena.live(), 0);
  });
  double largest = 0;  // of the errors of gradients, which the first frozen step would take with it
  for (const auto& errors : at[4].worker)
    for (double x : errors) largest = std::max(largest, std::abs(x));
  EXPECT_GT(largest, 0.01) << "there is something to drop";
}

}  // namespace test_optim_one_bit
}  // namespace ravine
