// Writes the random states that Transformers' Trainer stores in rng_state.pth: Python's, NumPy's and torch's on the
// CPU. All three are Mersenne twisters (MT19937). Ravine writes fresh states of a seed, since its runs draw by seed and
// step and keep no state.
#pragma once
#include <cstdint>

#include "io/convert/torch_fields.h"

namespace ravine {

// Writes the random states of `seed` as the dict that torch.load, random.setstate, numpy.random.set_state and
// torch.random.set_rng_state read.
void put_random_states(TorchFields& w, uint32_t seed);

}  // namespace ravine
