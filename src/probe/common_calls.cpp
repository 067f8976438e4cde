#include "probe/common_calls.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace ravine {

CommonCalls common_calls(const RankDump& a, const RankDump& b, bool of_modules) {
  CommonCalls out;
  std::unordered_map<std::string, std::set<std::string>> tensors_a, tensors_b;
  for (const auto& [records, tensors] : {std::pair{&a.records, &tensors_a}, {&b.records, &tensors_b}})
    for (const DumpRecord& r : *records) {
      std::set<std::string>& read = (*tensors)[r.call()];
      if (!r.output) read.insert(r.tensor);
    }
  for (const auto& [call, tensors] : tensors_a) {
    const auto b = tensors_b.find(call);
    if (b == tensors_b.end()) continue;
    if (b->second == tensors)
      out.all.insert(call);
    else if (of_modules && (std::includes(b->second.begin(), b->second.end(), tensors.begin(), tensors.end()) ||
                            std::includes(tensors.begin(), tensors.end(), b->second.begin(), b->second.end())))
      out.all.insert(call), out.partly.insert(call);
  }
  return out;
}

}  // namespace ravine
