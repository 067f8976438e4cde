// The counts of `ravine preprocess`. A resumed run continues them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ravine {

struct PreprocessReport {
  int64_t files = 0, records = 0, documents = 0, tokens = 0;
  int64_t resumed_at = 0;                    // number of records completed before the run was resumed; 0: not resumed
  std::map<std::string, int64_t> left_out;   // number of skipped texts, by reason
  std::map<std::string, std::string> first;  // place of the first skipped text, by reason
  int64_t repaired = 0;                      // records in which bad UTF-8 was replaced by U+FFFD
  std::string first_repaired;
  std::vector<std::string> prefixes;  // prefixes of the written files
};

}  // namespace ravine
