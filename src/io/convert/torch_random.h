// The states of the random numbers that Transformers' Trainer keeps in rng_state.pth: Python's, NumPy's and torch's on the CPU. All
// three are Mersenne twisters (MT19937). Ours are those of a seed: a run of ours draws by its seed and step, and keeps none.
#pragma once
#include <cstdint>

#include "io/convert/torch_fields.h"

namespace ravine {

// The dict that torch.load, random.setstate, numpy.random.set_state and torch.random.set_rng_state take.
void put_random_states(TorchFields& w, uint32_t seed);

}  // namespace ravine
