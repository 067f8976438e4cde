// The reduced case of the precision guide: the same training with few layers, a constant learning rate and nothing
// random, in which a fault is looked for.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "checks/side.h"

namespace ravine {

// A reduced training. changes: "train.dropout 0.1 -> 0": the options and fields that differ from the side.
struct ReducedCase {
  Config config;
  Json model;  // config.json
  std::vector<std::string> changes;
};

// Returns config.json with its first `layers` layers: the number of layers, and lists with an entry for each layer. A
// model with fewer layers is a UserError.
Json first_layers(const Json& model, int64_t layers, const std::string& where);

// Returns the reduced case of a side: its first layers, a constant learning rate without warmup, no dropout, eps 1e-8
// and one rank. Data paths become absolute. Weights are not set. A side without a model is a UserError.
ReducedCase reduced_case(const Side& side, int64_t layers, int64_t steps);

// Writes the weights of the first layers to folder/model.safetensors, with config.json and the tokenizer's files.
// weights: a folder or file of any layout that `ravine convert` reads. whole: config.json of these weights. Returns the
// number of tensors.
int64_t write_first_layers(const std::string& weights, const Json& whole, const ReducedCase& reduced,
                           const std::string& tokenizer, const std::string& folder);

}  // namespace ravine
