// The small files that a run keeps in its folder, as everybody reads them: plain files of bounded size. A pipe or a device in
// the place of one is a UserError at once, and so is a file that is too large; a failed read is an Error.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// Bytes of a line of metrics.jsonl: a row of `local_norms` has some 100 for each parameter and rank.
inline constexpr int64_t kMetricsLine = int64_t{16} << 20;

// The JSON in a file of a run, of `limit` bytes at most.
Json read_run_json(const std::string& file, int64_t limit = int64_t{16} << 20);

// The options in RUN/config.yaml, or the run.yaml of a prepared folder; not those of a pipe, which `--config` may name.
Config read_run_config(const std::string& file);

// RUN/exported: of which checkpoint the run's model is ("step_000004"), and how it was written. Both are "" where there is no
// such file; older versions wrote the first only.
struct ExportedNote {
  std::string checkpoint, as;
};
ExportedNote read_exported(const std::string& run);

}  // namespace ravine
