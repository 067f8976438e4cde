// Reads a dump of msprobe (mindstudio-probe): levels L0, L1 and mix, tasks `statistics` and `tensor`.
//
//   DIR/step0/rank0|proc123/dump.json  {"task":..,"level":..,"data":{NAME:{..}}}; steps count from 0, Ravine's from 1
//                           dump_tensor_data/NAME.input.0.pt|.npy
//
// Modules (L0, mix) have names Module.PATH.CLASS.forward|backward|parameters_grad.CALL. API calls (L1, mix) have names
// Functional.linear.CALL.forward|backward. CALL of a module is the micro batch; the last gradient is the whole one. A
// tensor without a file has figures (TensorFigures::rough), or msprobe's own checksum.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

// True if the folder is a dump of msprobe: a folder with steps, the folder of one step, or of one rank of a step.
bool is_msprobe_dump(const std::string& folder);

// Reads the module calls in a dump of msprobe, as calls under Ravine's names (module_calls.h). API calls are only
// counted (Dump::aside). Tensors are read one by one. A mistake in the dump is a UserError.
Dump read_msprobe_modules(const std::string& folder);
// Reads a dump of msprobe. Calls keep msprobe's names, so that two dumps of other programs can be compared: path and
// class of a module, name and number of an API call. Scalar arguments of a call are settings of its outputs.
Dump read_msprobe_names(const std::string& folder);

}  // namespace ravine
