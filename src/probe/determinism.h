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

// The settings of check_determinism().
struct DeterminismOptions {
  int64_t steps = 4;
  // If not empty, a case with a fault is added, which must differ: one sum in the product at this path is computed in
  // another order (probe/reorder.h).
  std::string inject;
  std::string folder;  // an existing folder, in which the resume case writes a checkpoint and removes it
};

// The comparison of one case of check_determinism() with the first run.
struct DeterminismCase {
  std::string name;                                // "2 threads"
  bool losses = true, norms = true, state = true;  // true if losses, gradient norms, weights and states are equal
  int64_t compared = 0;                            // number of compared outputs of kernel calls
  int64_t step = 0;                                // the first step that differs; 0: none
  std::string tensor;                              // the first final weight or optimizer state that differs; "": none
  OpHashes::Difference op;                         // the first kernel call with another output; op.step 0: none
  bool equal() const { return losses && norms && state && step == 0 && op.step == 0; }
};

// The values of a run that check_determinism() compares.
struct RunBits {
  std::vector<double> losses, norms;                    // loss and gradient norm of each step
  std::vector<std::pair<std::string, uint64_t>> state;  // name and checksum of each final weight and optimizer state
};

// Compares two runs bit for bit. name: of the case. a, b: both have the same steps and tensors. hashes: the checksums
// of b's kernel calls, which were compared with the checksums of a's calls.
DeterminismCase compare_runs(const std::string& name, const RunBits& a, const RunBits& b, const OpHashes& hashes);

// Checks that a run is deterministic. Runs a short training with `config`, then again in several cases (other threads,
// recomputation, a resume, ..). Returns the comparison of each case with the first run. `done` is called after each
// case. Without data.train the tokens are random. Keeps no weights. Memory is needed for one run at a time. The thread
// count is restored at the end.
std::vector<DeterminismCase> check_determinism(const Config& config, Backend backend, const DeterminismOptions& options,
                                               const std::function<void(const DeterminismCase&)>& done);

// Returns the fused ops whose unfused form gives the same bits. Other ops (attention, loss_head) sum in another order.
const std::vector<std::string>& bitwise_fusions();

}  // namespace ravine
