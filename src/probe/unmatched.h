// The tensors of two dumps without a partner. A step or phase without any partner is listed as a whole.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "probe/dump_log.h"

namespace ravine {

// Collects the tensors of two dumps without a partner in the other dump, and lists them as text.
class Unmatched {
 public:
  void add(const char* side, int rank, const DumpRecord& r);
  // Returns the list: one text per tensor, or one for a whole group (rank, step and phase) without any pair. paired:
  // the groups with at least one pair. uncovered: the texts of groups without any pair are appended to it.
  std::vector<std::string> words(const std::set<std::string>& paired, std::vector<std::string>& uncovered) const;
  static std::string group(int rank, const DumpRecord& r);

 private:
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> names_;
};

}  // namespace ravine
