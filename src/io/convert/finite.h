// Numbers that are none: NaN and infinities among weights that are read, and what becomes infinite in the type that is written.
#pragma once
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "io/convert/elements.h"

namespace ravine {

// The same elements; one that is not finite is a UserError when it is read, which names where it lies, its place and `rule`.
// Other types than floating ones are passed on.
ElementsPtr finite(ElementsPtr from, const std::string& rule, const std::string& fix);

// What tensors lost or lacked on their way into other types, told after all are written. Counted by many threads.
class LostNumbers {
 public:
  // The same elements, of which those that are not finite, and those that are not finite as `written`, are counted here. Must
  // not outlive this.
  ElementsPtr counted(ElementsPtr from, DType written);
  std::vector<std::string> notes() const;  // with counts and a tensor of them

 private:
  friend class CountedElements;
  void add(const std::string& where, DType written, int64_t bad, int64_t beyond);
  struct Count {
    int64_t numbers = 0;
    std::set<std::string> seen;  // tensors, of which a thousand are kept
  };
  mutable std::mutex mutex_;
  Count bad_;                      // not finite as they were read
  std::map<DType, Count> beyond_;  // beyond the range of this type
};

}  // namespace ravine
