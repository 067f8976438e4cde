// The tensors of two dumps without a partner. A step or phase without any partner is listed as a whole.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "probe/dump_log.h"

namespace ravine {

// Collects tensors without a partner.
class Unmatched {
 public:
  void add(const char* side, int rank, const DumpRecord& r);
  // Returns the list as text. `paired`: the groups with at least one partner. uncovered: the groups without any are
  // appended; no later pair covers them.
  std::vector<std::string> words(const std::set<std::string>& paired, std::vector<std::string>& uncovered) const;
  static std::string group(int rank, const DumpRecord& r);

 private:
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> names_;
};

}  // namespace ravine
