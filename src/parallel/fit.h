// The meshes that fit a model: its heads, widths, layers and batch must be divisible. Training, planning and inference
// use these rules.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "config/config.h"
#include "model/model.h"

namespace ravine {

// The reason why a mesh does not fit a model, in the parts of a UserError: what is wrong, where, and the rule. The
// result of mesh_fault.
struct MeshFault {
  std::string what, where, rule;
};

// Checks that heads, widths, layers and batch of a model are divisible by the mesh. Returns the reason why it does not
// fit; empty if it fits. Of `options`, only the number of virtual stages is used. micro_batches: of a step, over all
// data ranks; 0: no batch is divided (inference). A vocabulary that is not divisible is padded. If there are fewer
// key/value heads than tensor ranks, neighbours share a head.
std::optional<MeshFault> mesh_fault(const Mesh& mesh, const ParallelOptions& options, const Model& model,
                                    int64_t micro_batches = 0);

// Returns all meshes of `ranks` ranks that fit the model, ordered by pipeline stages, then by tensor ranks. The number
// of expert ranks is parallel.expert, or the next smaller number that fits.
std::vector<Mesh> meshes_of(int ranks, const ParallelOptions& options, const Model& model, int64_t micro_batches = 0);

// Returns the mesh that the options parallel.* define for `ranks` ranks. parallel.data=0 means the ranks that tensor
// and pipeline leave. A mesh that does not fit is a UserError with the nearest meshes that fit.
Mesh mesh_of(const ParallelOptions& options, int ranks, const Model& model, int64_t micro_batches = 0);

int64_t layers_of(const Model& model);  // blocks between embedding and head
std::string spelled(const Mesh& mesh);  // "parallel.data=2 parallel.tensor=2"

// Returns advice for a message, "use A, or B": the meshes of of(ranks) that are nearest to `requested`. `of`: returns
// the meshes that fit a number of ranks. If of(ranks) is empty, the next smaller number of ranks with a mesh is used;
// "" if no number has one.
std::string nearest_meshes(int ranks, const Mesh& requested, const std::function<std::vector<Mesh>(int)>& of);

}  // namespace ravine
