// Whether two models are one, whatever their files leave unsaid: a field that is absent means what the family takes for it.
#pragma once
#include "model/model.h"

namespace ravine {

// The same parameters, whose values both take to the same numbers and gradients. How weights begin and the ids of text (bos,
// eos) do not count; the padding id does where its embedding gets no gradient.
bool same_model(const Model& a, const Model& b);

// The same, of a dense model and one with experts in every layer, but for the MLPs; those that `sparse` would have without
// experts are the dense one's. Families may differ.
bool same_beside_mlps(const Model& dense, const Model& sparse);

}  // namespace ravine
