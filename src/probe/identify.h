// Names the settings of Adam or AdamW that turn recorded gradients into recorded weights, where the configured settings
// do not.
//
// Tried are the configured settings, then each setting alone, then each pair. Values are solved for: least squares in
// units of the roundings' bounds (recorded_updates.h), begun from a coarse grid. A solved value is replaced by the
// roundest number that fits. The decayed set is chosen for each parameter by itself. Among several answers of one size
// the roundest values come first. The other answers are listed, because the recording cannot tell them apart.
//
// order has three forms:
//   coupled / decoupled      the decay is added to the gradient (Adam), or taken from the weight (AdamW)
//   clipped before unscaled  clipping has read the norm of gradients that were still multiplied by a loss scale
//   gradients times X        a scale was not divided out, or twice
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "probe/recorded_updates.h"

namespace ravine {

// A setting that explains a recording. value: a number, a bool, "all", or a list of names or of rates.
struct FoundSetting {
  std::string setting;  // lr beta1 beta2 eps weight_decay decayed clip_norm bias_correction order
  Json value;
  std::string text;  // "beta2 is 0.999, not 0.95"
};

// Settings that together explain a recording.
struct Explanation {
  std::vector<FoundSetting> settings;  // empty: the configured settings explain it
  AdamSettings rule;
  Misfit misfit;
  int digits = 0;  // digits of all values: fewer are likelier to have been meant
};

// The result of identify().
struct Identified {
  Misfit configured;                   // of the configured settings
  std::vector<Explanation> explained;  // all of the smallest size that fit, the likeliest first; empty: none fits
  Explanation closest;                 // if none fits: the explanation that leaves least
  std::string text(const RecordedUpdates& u) const;
  Json json(const RecordedUpdates& u) const;
};

// Searches for the settings that turn a recording's gradients into its weights. `configured`: the settings that were
// meant. base_rate: the largest learning rate of the recording, which a found lr replaces.
Identified identify(const RecordedUpdates& u, const AdamSettings& configured);

}  // namespace ravine
