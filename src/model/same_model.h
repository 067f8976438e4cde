// Compares two models by meaning: an absent field has the family's default.
#pragma once
#include "model/model.h"

namespace ravine {

// True if both models have the same parameters and compute the same outputs and gradients from them. Initial values and
// the ids of text (bos, eos) are not compared. The padding id is compared if its embedding gets no gradient.
bool same_model(const Model& a, const Model& b);

// True if a dense model equals a model with experts in every layer, except for the MLPs. The dense MLPs of `sparse`
// must equal the MLPs of `dense`. Families may differ.
bool same_beside_mlps(const Model& dense, const Model& sparse);

}  // namespace ravine
