// Finds the feature of a config, or the pair of features, that changes the result of a training beyond roundings.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// A feature of a config: something that can be switched off and should change no result beyond roundings.
struct Feature {
  std::string name;                  // "recompute", "fused rope", "parallel.tensor"
  std::function<void(Config&)> off;  // switches it off in a config
  int needs = -1;                    // index of the feature without which it has no effect; -1: none
};

// Returns the features that are on in a config. with_data: also those that change what is learned (dropout, packing),
// which only another program's curve can judge.
std::vector<Feature> features_of(const Config& config, bool with_data);

// Returns the smallest sets of features that make `differs` true: first each feature alone; then, if none does, or if
// the rest still does without those found, one set that is found by halving. count: the number of features. differs
// takes the indices of the features that are on; the result for the empty set must be false. Every call is one
// training.
std::vector<std::set<int>> guilty_sets(int count, const std::function<bool(const std::set<int>&)>& differs);

struct FeatureOptions {
  int64_t steps = 4;  // of each training
  std::string program, folder;
  std::string reference;  // a curve or dump of the right result; empty: the training without all features
  std::function<void(const std::string&)> print_stderr = [](const std::string&) {};
};

// The result of bisect_features(). guilty: sets of names of features; empty: none changes the result. without_all: the
// training without all features disagrees with the reference, so that no feature is to blame.
struct FeatureBisection {
  std::vector<std::string> features;
  std::vector<std::vector<std::string>> guilty;
  bool without_all = false;
  int64_t runs = 0;
  std::string finding;  // the difference of the whole config, as the judge has it
  bool agrees() const { return guilty.empty() && !without_all; }
  std::string text() const;
};

// Trains a config with subsets of its features. judge_curves (probe/curves.h) judges the losses against the reference.
// A gradient norm may differ by 8 times loss_envelope. A dump is judged by compare_dumps.
FeatureBisection bisect_features(const std::string& config_file, const FeatureOptions& options);
Json feature_bisection_json(const FeatureBisection& result);

}  // namespace ravine
