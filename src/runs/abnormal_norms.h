// RUN/abnormal_global_norm.json, as MindFormers' check_for_global_norm keeps it: {"4": [2.93]}, norms by the steps at which
// health.stop_norm ended the run. A step that is there does not end it again: what failed may have been the machine, and where
// it was not, the run has to go on.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"

namespace ravine {

inline constexpr const char* kAbnormalFile = "abnormal_global_norm.json";

class AbnormalNorms {
 public:
  explicit AbnormalNorms(std::string path) : path_(std::move(path)) {}
  void read();  // a file that is no such map is a UserError; none is none
  bool seen(int64_t step) const { return norms_.contains(std::to_string(step)); }
  void note(int64_t step, double norm);  // appends to it and writes the file

 private:
  std::string path_;
  Json norms_ = Json::object();
};

}  // namespace ravine
