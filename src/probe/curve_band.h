// A file with the curves of equal runs, whose scatter is a noise band for `ravine curves --band`. `ravine check
// baseline` and `ravine check lr0` write it:
//   {"ravine": "band", "version": 1, "kind": "baseline", "runs": [{"name": .., "loss": [[1, 5.5], ..], "norm": ..}]}
#pragma once
#include <string>
#include <vector>

#include "files/atomic.h"
#include "probe/curve_file.h"

namespace ravine {

// Writes a band. kind: "baseline" or "lr0".
void write_curve_band(const std::string& path, const std::string& kind, const std::vector<TrainingCurve>& runs,
                      const MayReplace& check = {});
// Reads the curves of a band. Fewer than two, or another file, is a UserError.
std::vector<TrainingCurve> read_curve_band(const std::string& path);

}  // namespace ravine
