// Step sums: the losses and counts of a step that blocks add without a tensor, kept per micro batch. The sums are exact
// and do not depend on the order, so stages, ranks and micro batches may add in any order.
#pragma once
#include <map>
#include <utility>

#include "base/exact_sum.h"
#include "engine/router_load.h"

namespace ravine {

// The kinds of sums over a micro batch. loss: the sum of losses of its valid labels, or of its preference pairs. All
// others are sums over pairs: the rewards of the chosen and of the rejected answers; the number of pairs whose chosen
// reward is larger; the log-probabilities of the answers.
enum class StepSum : uint8_t { loss, chosen_reward, rejected_reward, right_order, chosen_log_prob, rejected_log_prob };
inline constexpr StepSum kStepSums[] = {StepSum::loss,        StepSum::chosen_reward,   StepSum::rejected_reward,
                                        StepSum::right_order, StepSum::chosen_log_prob, StepSum::rejected_log_prob};

class StepSums {
 public:
  void add(int64_t micro, StepSum side, const ExactSum& sum) { sums_[{micro, side}].add(sum); }
  // Returns a sum (loss, rewards, ..) of one micro batch; zero if nothing was added.
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
  // Stores the router statistics of a layer for a micro batch.
  void add_router(int64_t micro, int64_t layer, RouterLoad load) { routers_[micro][layer] = std::move(load); }
  // Sets RouterLoad::shares of stored router statistics, for the global balance loss.
  void set_shares(int64_t micro, int64_t layer, std::vector<double> shares) {
    routers_.at(micro).at(layer).shares = std::move(shares);
  }
  // Returns the router statistics of a micro batch, by layer, for the layers that have run on this stage.
  const RouterLoads& routers(int64_t micro) const {
    static const RouterLoads none;
    const auto it = routers_.find(micro);
    return it == routers_.end() ? none : it->second;
  }
  // Returns the router statistics of a micro batch pooled over all layers. Without set_pool() these are the layers that
  // have run on this stage.
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
