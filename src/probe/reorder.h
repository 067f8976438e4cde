// A planted fault: one element of one product is summed in another order. Checks of equality must notice it.
#pragma once
#include <string>

#include "engine/observer.h"

namespace ravine {

class ReorderSum : public Observer {
 public:
  explicit ReorderSum(std::string path)
      : path_(std::move(path)) {}  // glob pattern of the path of a product x W^T of the forward pass
  // The first element whose bits change when its sum runs backwards is replaced by that sum; only one, in the whole run.
  void after(const CallInfo& call) override;
  bool done() const { return done_; }
  bool met() const { return met_; }  // a product of that path ran

 private:
  std::string path_;
  bool done_ = false, met_ = false;
};

}  // namespace ravine
