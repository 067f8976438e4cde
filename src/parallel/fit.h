// Which meshes a model can be spread over: what divides its heads, its widths, its layers and the batch. Training, planning and
// running share these rules.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "config/config.h"
#include "model/model.h"

namespace ravine {

// Why a mesh does not fit.
struct MeshFault {
  std::string what, where, rule;
};

// Of parallel.*, the numbers of virtual stages and of expert ranks count. micro_batches: of a step, over all data ranks; 0: there is no batch to
// divide (running). A vocabulary that does not divide is padded; of key/value heads there may be fewer than tensor ranks, then
// neighbours share one.
std::optional<MeshFault> mesh_fault(const Mesh& mesh, const ParallelOptions& options, const Model& model,
                                    int64_t micro_batches = 0);

// All meshes of so many ranks that have no fault: by pipeline stages, then tensor ranks; expert ranks as asked for, or as many of
// them as fit.
std::vector<Mesh> meshes_of(int ranks, const ParallelOptions& options, const Model& model, int64_t micro_batches = 0);

// The mesh that parallel.* means for so many ranks: data (0: the remaining ones), tensor, pipeline. One that does not fit is a
// UserError with the nearest that do.
Mesh mesh_of(const ParallelOptions& options, int ranks, const Model& model, int64_t micro_batches = 0);

int64_t layers_of(const Model& model);  // blocks between embedding and head
std::string spelled(const Mesh& mesh);  // "parallel.data=2 parallel.tensor=2"

// "use A, or B": the nearest to `asked` of the meshes of so many ranks that `of` gives, else of the next smaller number of
// ranks; "" if there is none.
std::string nearest_meshes(int ranks, const Mesh& asked, const std::function<std::vector<Mesh>(int)>& of);

}  // namespace ravine
