// Finds the first place at which two runs part: step, phase, layer, op, element.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/stop_token.h"
#include "probe/comparison.h"

namespace ravine {

// One of the two runs. path: a config (YAML), which is trained for the comparison, or the folder of a run. program: the
// build of Ravine that trains it and repeats its steps.
struct BisectSide {
  std::string path, program;
};

struct BisectOptions {
  // steps: the most steps to train and compare. folder: an empty folder for trained runs and dumps. report: takes
  // a line for each stage of the search.
  int64_t steps = 10;
  std::string folder;
  const StopToken* stop = nullptr;  // ends the search when it is requested
  std::function<void(const std::string&)> report = [](const std::string&) {};
};

// The first tensor whose bits differ, with the first element that differs. Values are text, as element_text writes
// them.
struct FirstDifference {
  int64_t step = 0, micro = 0, layer = -1;  // layer: -1 outside of layers
  int rank = 0;
  std::string phase, path, op, tensor;
  bool output = false;        // false: an input that no call wrote, such as ids, labels, weights, rates
  bool inputs_equal = false;  // of an output: all inputs of its call have equal bits
  std::vector<int64_t> element;
  std::string a, b;  // empty: the elements are not comparable (other shapes, or joined from ranks)
};

// The result of bisect(). steps: the number of compared steps. agrees: roundings explain all differences. If there is
// one, `culprit` is the first call that roundings do not explain.
struct Bisection {
  int64_t steps = 0;
  bool equal = false, agrees = false;
  std::optional<FirstDifference> first;
  std::optional<Culprit> culprit;
  std::array<int64_t, 2> further{};  // steps of A and of B that were recorded after the last common one
  std::vector<std::string> alone;    // phases of a step that one run has and the other has not, as text
  std::string text() const;          // the result in one to four sentences
};

// Compares two runs step by step. Steps are repeated by child processes of each side's program, from the newest
// checkpoint before the first differing step. UserError if a side is neither a config nor a run, if a child fails, or
// if the runs have no step in common.
Bisection bisect(const BisectSide& a, const BisectSide& b, const BisectOptions& options);
Json bisection_json(const Bisection& result);

}  // namespace ravine
