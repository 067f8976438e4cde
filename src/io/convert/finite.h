// Finds values that are not finite: NaN and infinities in weights that are read, and overflow in the type that is
// written.
#pragma once
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "io/convert/elements.h"

namespace ravine {

// Returns the same elements with a check: reading one that is not finite is a UserError that names its tensor, its
// index, `rule` and `fix`. Tensors that are not floating are returned unchanged.
ElementsPtr finite(ElementsPtr from, const std::string& rule, const std::string& fix);

// Counts the values of tensors that are not finite, or overflow in the written type; reported after all are written.
// Thread-safe.
class LostNumbers {
 public:
  // Returns the same elements, which count themselves when they are read: elements that are not finite, and elements
  // that overflow in type `written`. The result must not outlive this object.
  ElementsPtr counted(ElementsPtr from, DType written);
  std::vector<std::string> notes() const;  // returns a line for each count, with an example tensor

 private:
  friend class CountedElements;
  void add(const std::string& where, DType written, int64_t bad, int64_t beyond);
  struct Count {
    int64_t numbers = 0;
    std::set<std::string> seen;  // tensors, at most 1000
  };
  mutable std::mutex mutex_;
  Count bad_;                      // not finite in the source
  std::map<DType, Count> beyond_;  // finite but beyond the range of the type
};

}  // namespace ravine
