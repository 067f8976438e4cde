// A dump of msprobe (mindstudio-probe), of levels L0, L1 and mix, tasks `statistics` and `tensor`.
//
//   DIR/step0/rank0|proc123/dump.json        {"task":..,"level":..,"data":{NAME:{..}}}; steps count from 0, ours from 1
//                           dump_tensor_data/NAME.input.0.pt|.npy
//
// Names of modules (L0, mix): Module.PATH.CLASS.forward|backward|parameters_grad.CALL, of calls of the API (L1, mix):
// Functional.linear.CALL.forward|backward. The CALL of a module is the micro batch; of gradients the last one is the whole.
// Without files a tensor has figures alone (TensorFigures::rough), or a checksum of msprobe's own.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

// A folder with steps, one step, or one rank of a step.
bool is_msprobe_dump(const std::string& folder);

// Under our names (module_calls.h); calls of the API are only counted (Dump::aside). Whatever is wrong with the dump is a
// UserError. Tensors are read one by one.
Dump read_msprobe_modules(const std::string& folder);
// Under its own names, which two of another program's dumps have in common: modules have their path and class, calls of the API
// their name and number, scalar arguments are settings of what is written.
Dump read_msprobe_names(const std::string& folder);

}  // namespace ravine
