// Step sums: losses and counts that blocks give beside their tensors. Kept per micro batch, exact and free of order, so that it does not
// matter which stage, rank or micro batch gave what.
#pragma once
#include <map>
#include <utility>

#include "base/exact_sum.h"
#include "engine/router_load.h"

namespace ravine {

// Sums over a micro batch. loss: of its labels that count, or of its preference pairs; the others are of pairs: the rewards of
// the chosen and the rejected answers, the pairs whose chosen one is larger, the log-probabilities of the answers.
enum class StepSum : uint8_t { loss, chosen_reward, rejected_reward, right_order, chosen_log_prob, rejected_log_prob };
inline constexpr StepSum kStepSums[] = {StepSum::loss,        StepSum::chosen_reward,   StepSum::rejected_reward,
                                        StepSum::right_order, StepSum::chosen_log_prob, StepSum::rejected_log_prob};

class StepSums {
 public:
  void add(int64_t micro, StepSum side, const ExactSum& sum) { sums_[{micro, side}].add(sum); }
  // Of one micro batch; zero if nothing came.
  ExactSum of(int64_t micro, StepSum side) const {
    auto it = sums_.find({micro, side});
    return it == sums_.end() ? ExactSum() : it->second;
  }
  ExactSum total(StepSum side) const {
    ExactSum all;
    for (auto& [key, sum] : sums_)
      if (key.second == side) all.add(sum);
    return all;
  }
  // What the router of a layer did with a micro batch.
  void add_router(int64_t micro, int64_t layer, RouterLoad load) { routers_[micro][layer] = std::move(load); }
  // Of what was added, the shares of choices that its balance loss is taken with (RouterLoad::shares).
  void set_shares(int64_t micro, int64_t layer, std::vector<double> shares) {
    routers_.at(micro).at(layer).shares = std::move(shares);
  }
  // Of all layers of a micro batch that were here so far.
  const RouterLoads& routers(int64_t micro) const {
    static const RouterLoads none;
    const auto it = routers_.find(micro);
    return it == routers_.end() ? none : it->second;
  }
  // What routers of all layers did with it together. Unless a stage says otherwise (set_pool) the layers that were here are all.
  RouterPool pool(int64_t micro) const {
    const auto it = pools_.find(micro);
    return it == pools_.end() ? pool_of(routers(micro)) : it->second;
  }
  void set_pool(int64_t micro, RouterPool pool) { pools_[micro] = std::move(pool); }
  void clear() { sums_.clear(), routers_.clear(), pools_.clear(); }

 private:
  std::map<std::pair<int64_t, StepSum>, ExactSum> sums_;
  std::map<int64_t, RouterLoads> routers_;
  std::map<int64_t, RouterPool> pools_;
};

}  // namespace ravine
