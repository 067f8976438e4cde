// Finds the feature of a config, or the pair of features, that changes the result of a training beyond roundings.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/stop_token.h"
#include "config/config.h"

namespace ravine {

// A feature of a config: an option that can be switched off and should change no result beyond roundings.
struct Feature {
  std::string name;                  // "recompute", "fused rope", "parallel.tensor"
  std::string option;                // "train.recompute", "precision.unfused=[rope]", "precision.recipes[1]"
  std::function<void(Config&)> off;  // switches it off in a config
  int needs = -1;                    // index of the feature without which it has no effect; -1: none
};

// Returns the features that are on in a config. with_data: also those that change what is learned (dropout, packing),
// which only another program's curve can judge. only: names or options to choose from them; any other option is a
// feature too, and is switched off by its default. Empty: all. A name that is neither is a UserError, and so is an
// option that has its default.
std::vector<Feature> features_of(const Config& config, bool with_data, const std::vector<std::string>& only = {});

// Returns the smallest sets of features that make `differs` true: first each feature alone; then, if none does, or if
// the rest still does without those found, one set that is found by halving. count: the number of features. differs
// takes the indices of the features that are on; the result for the empty set must be false. Every call is one
// training.
std::vector<std::set<int>> guilty_sets(int count, const std::function<bool(const std::set<int>&)>& differs);

struct FeatureOptions {
  int64_t steps = 4;  // of each training
  std::string program, folder;
  std::string reference;            // a curve or dump of the right result; empty: the training without all features
  const StopToken* stop = nullptr;  // ends the search when it is requested
  std::vector<std::string> only;    // as in features_of()
  std::function<void(const std::string&)> report = [](const std::string&) {};
};

// The result of bisect_features(). tried: names of all features. guilty: sets of names of features; empty: none changes
// the result. options: the options of guilty features. without_all: the training without all features disagrees
// with the reference, so that no feature is to blame.
struct FeatureBisection {
  std::vector<std::string> tried, options;
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
