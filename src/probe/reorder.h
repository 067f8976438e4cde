// A fault for tests: sums one element of one product in another order. Checks of equality must detect it.
#pragma once
#include <string>

#include "engine/observer.h"

namespace ravine {

// An observer that injects a fault for a test: one element of one product in a run is summed in another order.
class ReorderSum : public Observer {
 public:
  // path: a glob pattern for the path of a product x W^T of the forward pass.
  explicit ReorderSum(std::string path) : path_(std::move(path)) {}
  // Replaces the first element whose bits change if its sum runs backwards. Only one element in the whole run is
  // replaced.
  void after(const CallInfo& call) override;
  bool done() const { return done_; }  // true if an element was replaced
  bool met() const { return met_; }    // true if a product with this path ran

 private:
  std::string path_;
  bool done_ = false, met_ = false;
};

}  // namespace ravine
