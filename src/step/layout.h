// How a run is spread over ranks: what parallel.* means for so many ranks, this model and this batch.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "config/config.h"
#include "model/model.h"

namespace ravine {

struct RunLayout {
  Mesh mesh;
  int64_t micro_batches = 1;  // of a rank and step
  int64_t leaves = 1;         // of a rank; times the data ranks: sum_leaves
  int64_t sum_leaves = 1;
  bool round_robin = false;  // see takes_turns
  std::string text() const;  // "data 4 x pipeline 2": the mesh alone
};

// Of a step, over all data ranks.
int64_t micro_batches_of(const Config& config);

// How data ranks share the micro batches of a step: every R-th (ZeRO 2 and 3), or neighbours.
bool takes_turns(const ParallelOptions& parallel);

// A layout that does not fit the ranks, the layers or the batch is a UserError with the nearest that do. `leaves` of a
// checkpoint hold if parallel.sum_leaves is 0 and they fit.
RunLayout run_layout(const Config& config, int ranks, const Model& model, std::optional<int64_t> leaves = {});

// How many layers each part of the pipeline runs, in the order of the model.
std::vector<int64_t> layers_of_parts(const Model& model, const Config& config);

// Lines for people: which ranks run which blocks, and who shares gradients and layers with whom. `hosts`: of each rank; empty:
// unknown.
std::vector<std::string> mesh_lines(const Config& config, const RunLayout& layout, const Model& model,
                                    const std::vector<std::string>& hosts);

// Ranks that were started differently are refused: `mine` must be the same everywhere, line by line. All ranks call it.
void check_same(const Group& all, const std::string& what, const std::string& mine);

}  // namespace ravine
