// A model folder opened for running: declarations, weights and the kernels that read them. trace, generate and eval begin here.
#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "model/model.h"
#include "parallel/resident.h"

namespace ravine {

struct Session {
  std::string folder;
  std::unique_ptr<Model> model;
  Kernels kernels;
  Types types;
  std::unique_ptr<ResidentStore> store;

  // For a Ctx that runs the model forward: no stash, no observers. The Ctx refers to this session, which must stay where it is.
  Ctx::Setup setup(Arena& arena) const;
};

// UserError unless it is a folder; for commands that look into it before they open it.
void check_model_folder(const std::string& folder);

// Reads FOLDER/config.json and the weights beside it; blocks until they are in memory. f64 is computed by "ref" only.
// UserErrors name what is wrong with a file, a tensor, or say how much memory the weights would need.
Session open_session(const std::string& folder, DType compute, const std::string& backend,
                     Bf16Products products = Bf16Products::widen);

}  // namespace ravine
