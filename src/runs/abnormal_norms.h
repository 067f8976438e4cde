// The file RUN/abnormal_global_norm.json, as MindFormers' check_for_global_norm writes it: {"4": [2.93]}. It maps the
// steps at which health.stop_norm ended the run to their norms. A step in the file does not end the run again: the
// machine may have failed, and if it did not, the run must continue.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"

namespace ravine {

inline constexpr const char* kAbnormalFile = "abnormal_global_norm.json";

// The gradient norms at which health.stop_norm ended the run, by step, and the file abnormal_global_norm.json that
// stores them.
class AbnormalNorms {
 public:
  explicit AbnormalNorms(std::string path) : path_(std::move(path)) {}
  void read();  // a file with another content is a UserError; no file: no norms
  bool seen(int64_t step) const { return norms_.contains(std::to_string(step)); }
  void note(int64_t step, double norm);  // appends the norm and writes the file

 private:
  std::string path_;
  Json norms_ = Json::object();
};

}  // namespace ravine
