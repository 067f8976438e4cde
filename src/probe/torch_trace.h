// Reads a trace of tools/trace_torch.py as a dump: inputs and outputs of PyTorch's modules under the names of Ravine's
// calls.
//
//   DIR/trace.json
//       {"trace":"torch","version":1,"model":{..},"steps":{"1":{"losses":[..],"settings":{..},..}}}
//   DIR/step_000001.safetensors
//       forward|backward/MICRO/MODULE/in.0|out.0, gradient/PARAMETER, state/PARAMETER/weights|..
//
// module_calls.h lists the known modules.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

bool is_torch_trace(const std::string& folder);
// Reads a trace of tools/trace_torch.py: the folder of one rank. Each tensor is read once. A mistake in the trace is a
// UserError.
Dump read_torch_trace(const std::string& folder);

// Copies the settings of each update (learning rates, betas, decay) to the `state` records of its parameters. Called
// for a dump of Ravine that is compared with a trace of another program, which has the settings there.
void fill_parameter_settings(RankDump& rank);

}  // namespace ravine
