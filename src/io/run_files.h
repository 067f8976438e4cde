// Reads the small files that a run keeps in its folder: plain files of limited size. A pipe, a device or a too large
// file is a UserError at once; a failed read is an Error.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// The most bytes of a line of metrics.jsonl. A row of `local_norms` has about 100 bytes for each parameter and rank.
inline constexpr int64_t kMetricsLine = int64_t{16} << 20;

// Reads a JSON file of a run, of at most `limit` bytes; a larger file is a UserError.
Json read_run_json(const std::string& file, int64_t limit = int64_t{16} << 20);

// Reads the options in RUN/config.yaml, or in the run.yaml of a prepared folder. Refuses a pipe, which only `--config`
// may name.
Config read_run_config(const std::string& file);

// The contents of RUN/exported: the checkpoint whose weights are in the run's exported model ("step_000004"), and how
// the model was written. Both are "" if there is no such file; older versions wrote only the first.
struct ExportedNote {
  std::string checkpoint, as;
};
ExportedNote read_exported(const std::string& run);

}  // namespace ravine
