// The mean over ranks as one bit per element: against the formula of DeepSpeed's CompressedBackend, written as plain loops over
// all ranks at once, in double; and what is sent.
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
namespace {

double sign(double x) { return x >= 0 ? 1 : -1; }

double scale_of(const std::vector<double>& x) {
  double squares = 0;
  for (double v : x) squares += v * v;
  return std::sqrt(squares / static_cast<double>(x.size()));
}

// What all ranks get, from what each has; worker and server errors of all ranks move on.
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
  for (const auto& [type, backend] : {std::pair{DType::f64, "ref"}, {DType::f32, "ref"}, {DType::f32, "cpu"}})
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
        on_ranks({.data = ranks}, [&](const Ranks& place) {
          HeapArena arena;
          Ctx::Setup s;
          s.kernels = &kernels, s.arena = &arena;
          Ctx c(s);
          const Group& group = place.along(Axis::data);
          Storage errors(DeviceKind::cpu, error_count(count, ranks) * size_of(type)), x(DeviceKind::cpu, count * size_of(type));
          const TensorView kept = view_of(errors.data(), type, {error_count(count, ranks)}),
                           values = view_of(x.data(), type, {count});
          for (int step = 0; step < 3; ++step) {
            for (int64_t i = 0; i < count; ++i) {
              const double v = number(step, place.at().data, i);
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

// The intervals of zeroone_adam are those of DeepSpeed's counters, which walk from step to step; and no walk of ours is as long
// as a step count that a file gives.
TEST(OneBit, IntervalsOfZerooneAdam) {
  for (const auto& [freeze, scaler] : {std::pair{2, 1}, {7, 1}, {40, 3}, {1000, 16}}) {
    OptimizerOptions o;
    o.type = OptimizerType::zeroone_adam;
    o.var_freeze_step = freeze, o.var_update_scaler = scaler;
    const auto rule = make_update_rule(o);
    int64_t interval = 1, counted = 0;
    for (int64_t step = 2; step < 300; ++step) {
      const bool frozen = step > freeze + 1;
      EXPECT_EQ(rule->wants_local(step), frozen || step % interval != 0) << freeze << " " << scaler << " " << step;
      if (!frozen && step % interval == 0 && ++counted == scaler) counted = 0, interval *= 2;
    }
    EXPECT_TRUE(rule->wants_local(int64_t{1} << 62));
  }
}

}  // namespace
}  // namespace ravine
