// Which meshes a model can be spread over: what divides its heads, its widths and its layers.
#pragma once
#include <functional>
#include <string>

#include "comm/mesh.h"
#include "config/config.h"
#include "model/model.h"

namespace ravine {

// Why the model cannot be cut over so many tensor ranks; "" if it can. A vocabulary that does not divide is padded; of key/value heads
// there may be fewer than ranks, then neighbours share one.
std::string tensor_fault(const Model& model, int tensor);

int64_t layers_of(const Model& model);  // blocks between embedding and head
std::string spelled(const Mesh& mesh);  // "parallel.data=2 parallel.tensor=2"

// "use A, or B": the nearest to `asked` of the meshes of so many ranks that fit, else of the next smaller number of ranks; "" if there is none.
std::string nearest_meshes(int ranks, const Mesh& asked, const std::function<bool(const Mesh&)>& fits);

// The mesh of a command that runs a model and has no batch to divide: parallel.data (0: the remaining ranks), tensor, pipeline and virtual
// on so many ranks. What does not fit is a UserError with the nearest that do.
Mesh running_mesh(const ParallelOptions& options, int ranks, const Model& model);

}  // namespace ravine
