// Checks that a run is deterministic: one short training is repeated in one process, in ways that must not change a
// bit. The cases are a repetition, other thread counts, other recomputation, unfused ops with the same bits, and a
// resume. Losses, gradient norms, weights and optimizer states are compared bit for bit. If they differ, the first
// differing kernel call is named.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "kernels/backend.h"
#include "probe/op_hashes.h"

namespace ravine {

// The options of the check.
struct DeterminismOptions {
  int64_t steps = 4;
  // not empty: adds a case with a reordered sum in the product at this path (probe/reorder.h); it must differ
  std::string inject;
  std::string folder;  // an existing folder; the resume case writes a checkpoint there and removes it
};

// The result of one case.
struct DeterminismCase {
  std::string name;                                // "2 threads"
  bool losses = true, norms = true, state = true;  // true if equal
  int64_t compared = 0;                            // number of compared outputs of kernel calls
  int64_t step = 0;                                // the first step that differs; 0: none
  std::string tensor;                              // the first final weight or state that differs
  OpHashes::Difference op;                         // the first call that differs; op.step 0: none
  bool equal() const { return losses && norms && state && step == 0 && op.step == 0; }
};

// The compared values of a run.
struct RunBits {
  std::vector<double> losses, norms;                    // name and checksum of the final weights and optimizer states
  std::vector<std::pair<std::string, uint64_t>> state;  // name and checksum of weights and moments at the end
};

// Compares two runs. hashes: of the second run, compared with the first. Both have the same steps and tensors.
DeterminismCase compare_runs(const std::string& name, const RunBits& a, const RunBits& b, const OpHashes& hashes);

// Runs all cases and compares them with a run of `config`. `done` is called after each case. Without data.train the
// tokens are random. Keeps no weights. Memory is needed for one run at a time. The thread count is restored at the end.
std::vector<DeterminismCase> check_determinism(const Config& config, Backend backend, const DeterminismOptions& options,
                                               const std::function<void(const DeterminismCase&)>& done);

// Returns the fused ops whose unfused form gives the same bits. Other ops (attention, loss_head) sum in another order.
const std::vector<std::string>& bitwise_fusions();

}  // namespace ravine
