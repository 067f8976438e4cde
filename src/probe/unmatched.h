// What of two dumps has no partner, a step or phase at a time where all of it has none.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "probe/dump_log.h"

namespace ravine {

class Unmatched {
 public:
  void add(const char* side, int rank, const DumpRecord& r);
  // `paired`: the groups in which something has a partner.
  // uncovered: gets those of the others, which nothing that follows can stand for.
  std::vector<std::string> words(const std::set<std::string>& paired, std::vector<std::string>& uncovered) const;
  static std::string group(int rank, const DumpRecord& r);

 private:
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> names_;
};

}  // namespace ravine
