// Frozen matrices as a run with lora.base reads them.
#pragma once
#include <memory>

#include "io/convert/elements.h"

namespace ravine {

// The values in f32 that the 4-bit blocks of matrices stand for (kernels/nf4.h), of one matrix at a time: the last one that was
// asked for is kept, in blocks.
class Nf4Matrices {
 public:
  Nf4Matrices();
  // `w` [out, in]; not finite: an Error when it is read. What it gives may outlive this.
  ElementsPtr values(ElementsPtr w) const;

 private:
  struct Last;
  std::shared_ptr<Last> last_;
};

}  // namespace ravine
