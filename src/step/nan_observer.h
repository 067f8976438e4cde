// An observer that names the first kernel call that wrote a NaN or an infinity.
#pragma once
#include <string>

#include "engine/observer.h"

namespace ravine {

class NanObserver : public Observer {
 public:
  void after(const CallInfo& call) override;
  // Returns a text on the first output of a kernel call that is not finite: "first: matmul at
  // model.layers.3.mlp.down_proj (forward), tensor 'out', row 5, column 7: nan". Inputs of the call that are not finite
  // follow (then a weight is the cause). "" if all outputs were finite.
  const std::string& found() const { return found_; }

 private:
  std::string found_;
};

}  // namespace ravine
