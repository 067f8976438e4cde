// A trace of tools/trace_torch.py as a dump: what PyTorch's modules read and return, under the names of our calls.
//
//   DIR/trace.json                  {"trace":"torch","version":1,"model":{..},"steps":{"1":{"losses":[..],"settings":{..},..}}}
//   DIR/step_000001.safetensors     forward|backward/MICRO/MODULE/in.0|out.0, gradient/PARAMETER, state/PARAMETER/weights|..
//
// Modules are known by the names of module_calls.h.
#pragma once
#include "probe/dump_log.h"

namespace ravine {

bool is_torch_trace(const std::string& folder);
// One rank's folder. Whatever is wrong with it is a UserError. Reads every tensor once.
Dump read_torch_trace(const std::string& folder);

// What updates were made with (rates, betas, decay), beside the parameters that they made: so both programs tell of them.
void tell_settings_of_parameters(RankDump& rank);

}  // namespace ravine
