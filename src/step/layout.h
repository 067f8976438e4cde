// The layout of a run: parallel.* resolved for a number of ranks, a model and a batch.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "config/config.h"
#include "model/model.h"

namespace ravine {

// The layout of a run: its mesh, and the number of micro batches that a rank processes in a step. A rank sums the
// gradients of its micro batches in groups, the leaves.
struct RunLayout {
  Mesh mesh;
  int64_t micro_batches = 1;  // of a rank in a step
  int64_t leaves = 1;         // of a rank in a step; leaves * data ranks = sum_leaves
  int64_t sum_leaves = 1;
  bool round_robin = false;  // see takes_turns
  std::string text() const;  // "data 4 x pipeline 2": the mesh; "alone" for one rank
};

// Returns the number of micro batches of a step, over all data ranks.
int64_t micro_batches_of(const Config& config);

// True if data rank r of R processes micro batches r, r + R, r + 2 R, .. of a step (ZeRO 2 and 3). False if it
// processes consecutive micro batches (ZeRO 0 and 1).
bool takes_turns(const ParallelOptions& parallel);

// Resolves the options parallel.* for `ranks` ranks: the mesh, and the number of micro batches and leaves of a rank. A
// layout that does not fit the ranks, the layers or the batch is a UserError with the nearest layouts that fit.
// `leaves`: sum_leaves of the checkpoint to resume from. This value is used if parallel.sum_leaves is 0 and it fits the
// layout.
RunLayout run_layout(const Config& config, int ranks, const Model& model, std::optional<int64_t> leaves = {});

// Returns the number of layers of each pipeline part, in the order of the model.
std::vector<int64_t> layers_of_parts(const Model& model, const Config& config);

// Returns log lines on the layout of a run: the ranks that run each range of blocks, and the groups of ranks that share
// gradients and layers. `hosts`: the host name of each rank; empty: unknown.
std::vector<std::string> mesh_lines(const Config& config, const RunLayout& layout, const Model& model,
                                    const std::vector<std::string>& hosts);

// Compares a text of several lines between all ranks. A difference is a UserError with the first line that differs.
// `mine`: the text of this rank. `what` names the text in the message. All ranks call it together.
void check_same(const Group& all, const std::string& what, const std::string& mine);

}  // namespace ravine
