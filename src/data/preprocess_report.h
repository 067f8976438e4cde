// What `ravine preprocess` has counted so far; a run that goes on after a kill counts on.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ravine {

struct PreprocessReport {
  int64_t files = 0, records = 0, documents = 0, tokens = 0;
  int64_t resumed_at = 0;                    // records that an earlier run had done
  std::map<std::string, int64_t> left_out;   // by reason
  std::map<std::string, std::string> first;  // where a reason was met first
  int64_t repaired = 0;                      // records in which bad UTF-8 became U+FFFD
  std::string first_repaired;
  std::vector<std::string> prefixes;  // what was written
};

}  // namespace ravine
