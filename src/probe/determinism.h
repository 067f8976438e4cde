// One short training many times in one process, each time anew, in ways that must not change a bit: again, with other thread
// counts, other recomputation, ops unfused where that is promised equal, after a resume. Losses, gradient norms, weights and
// moments are compared bit for bit; where something differs, the first kernel call that wrote something else is named.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "kernels/backend.h"
#include "probe/op_hashes.h"

namespace ravine {

struct DeterminismOptions {
  int64_t steps = 4;
  std::string inject;  // not empty: one more case, with a sum of the product at this path in another order (probe/reorder.h);
                       // it must differ
  std::string folder;  // exists; the resume case writes a checkpoint there and removes it
};

struct DeterminismCase {
  std::string name;                                // "2 threads"
  bool losses = true, norms = true, state = true;  // equal
  int64_t compared = 0;                            // outputs of kernel calls compared
  int64_t step = 0;                                // the first step that differs; 0: none
  std::string tensor;                              // of the final weights and moments, the first that differs
  OpHashes::Difference op;                         // the first call that differs; op.step 0: none was seen
  bool equal() const { return losses && norms && state && step == 0 && op.step == 0; }
};

// What is compared of a run.
struct RunBits {
  std::vector<double> losses, norms;                    // per step
  std::vector<std::pair<std::string, uint64_t>> state;  // name and checksum of weights and moments at the end
};

// hashes: of the second run, compared with the first one's. Both have the same steps and tensors.
DeterminismCase compare_runs(const std::string& name, const RunBits& a, const RunBits& b, const OpHashes& hashes);

// Runs all cases; the first one, which the others are compared with, is `config` as it stands. `done` is called after each
// case. Without data.train the tokens are random. Trains nothing that is kept. Memory: one run at a time. The thread count is
// as before in the end.
std::vector<DeterminismCase> check_determinism(const Config& config, Backend backend, const DeterminismOptions& options,
                                               const std::function<void(const DeterminismCase&)>& done);

// Fused ops whose unfused definition is promised to give the same bits; for the others (attention, loss_head) sums run in other
// orders.
const std::vector<std::string>& bitwise_fusions();

}  // namespace ravine
