// Compares two models by meaning: an absent field has the family's default.
#pragma once
#include "model/model.h"

namespace ravine {

// True if both models have the same parameters and compute the same outputs and gradients from them. Initial values and
// the ids of text (bos, eos) are not compared. The padding id is compared if its embedding gets no gradient.
bool same_model(const Model& a, const Model& b);

// True if two models are equal except that `dense` has an MLP in every layer, and `sparse` has experts in every layer.
// The MLPs of `dense` must equal the dense MLP in the spec of `sparse`. Families may differ.
bool same_except_mlps(const Model& dense, const Model& sparse);

}  // namespace ravine
