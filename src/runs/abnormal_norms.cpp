#include "runs/abnormal_norms.h"

#include <filesystem>

#include "base/error.h"
#include "files/atomic.h"
#include "io/run_files.h"

namespace ravine {

void AbnormalNorms::read() {
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) return;
  norms_ = read_run_json(path_);
  bool right = norms_.is_object();
  for (const auto& [step, norms] : norms_.items()) right = right && norms.is_array();
  if (!right)
    throw UserError("not a file of abnormal norms", path_, "it must be a map of steps to lists of norms",
                    "remove or correct it");
}

void AbnormalNorms::note(int64_t step, double norm) {
  norms_[std::to_string(step)].push_back(norm);
  write_file_atomic(path_, norms_.dump(4) + "\n");
}

}  // namespace ravine
