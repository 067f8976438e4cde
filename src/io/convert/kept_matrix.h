// Frozen matrices with the values that a run with lora.base uses.
#pragma once
#include <memory>

#include "io/convert/elements.h"

namespace ravine {

// Replaces matrices by the f32 values of their 4-bit blocks (kernels/nf4.h). The blocks of the last matrix that was
// read are kept.
class Nf4Matrices {
 public:
  Nf4Matrices();
  // Returns the decoded values of `w` [out, in]. Reading a matrix that is not finite is a UserError. The result may
  // outlive this object.
  ElementsPtr values(ElementsPtr w) const;

 private:
  struct Last;
  std::shared_ptr<Last> last_;
};

}  // namespace ravine
