// Names the first kernel call that wrote a NaN or an infinity.
#pragma once
#include <string>

#include "engine/observer.h"

namespace ravine {

class NanWatch : public Observer {
 public:
  void after(const CallInfo& call) override;
  // "first: matmul at model.layers.3.mlp.down_proj (forward), tensor 'out', row 5, column 7: nan", and what of its inputs is
  // not finite (then a weight is to blame); empty: none.
  const std::string& found() const { return found_; }

 private:
  std::string found_;
};

}  // namespace ravine
