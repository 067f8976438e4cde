// Frozen matrices with the values that a run with lora.base uses.
#pragma once
#include <memory>

#include "io/convert/elements.h"

namespace ravine {

// Replaces matrices by the f32 values of their 4-bit blocks (NF4, kernels/nf4.h). The blocks of the last matrix that
// was read stay in memory.
class Nf4Matrices {
 public:
  Nf4Matrices();
  // Returns matrix `w` [out, in] with the values that it has in blocks of 4 bits, in f32. Reading a matrix that is not
  // finite is a UserError. The result may outlive this object.
  ElementsPtr values(ElementsPtr w) const;

 private:
  struct Last;
  std::shared_ptr<Last> last_;
};

}  // namespace ravine
