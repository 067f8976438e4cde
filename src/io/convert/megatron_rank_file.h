// What the file of each rank of Megatron holds, whether of a model or of a run in the middle: args, checkpoint_version, iteration,
// and model (of virtual stages model0, model1, ...).
#pragma once
#include "io/convert/megatron.h"
#include "io/convert/torch_fields.h"

namespace ravine {

// Into a dict that is open. `arguments`: further fields of args, an argparse.Namespace; its "iteration" is that of the file too.
void put_model(TorchFields& out, const MegatronFile& file, const Geometry& g, const MegatronLayout& layout, DType dtype,
               const Json& arguments);

}  // namespace ravine
