// Writes the common part of a Megatron rank's file, for a model or a run: args, checkpoint_version, iteration, and
// model (with virtual stages model0, model1, ...).
#pragma once
#include "io/convert/megatron.h"
#include "io/convert/torch_fields.h"

namespace ravine {

// Writes the fields of a Megatron rank's file into an open dict of `out`. `arguments` has additional fields of args, an
// argparse.Namespace; its "iteration" is also the file's.
void put_model(TorchFields& out, const MegatronFile& file, const Geometry& g, const MegatronLayout& layout, DType dtype,
               const Json& arguments);

}  // namespace ravine
