// A question of a benchmark in the form of a protocol.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config/choice.h"

namespace ravine {

// How a model answers the items of a benchmark. generate: it generates a greedy answer, which is parsed, as in
// ModelLink's tasks/evaluation. likelihood: the answer is the choice that is most likely after the prompt, as in
// lm-evaluation-harness.
enum class Protocol : uint8_t { generate, likelihood };
constexpr auto names_of(Protocol) {
  using enum Protocol;
  return std::to_array<ValueName<Protocol>>({{generate, "generate"}, {likelihood, "likelihood"}});
}

enum class EvalSplit : uint8_t { val, test };
constexpr auto names_of(EvalSplit) {
  return std::to_array<ValueName<EvalSplit>>({{EvalSplit::val, "val"}, {EvalSplit::test, "test"}});
}

// A question of a benchmark. Fields marked generate or likelihood are set for this protocol only.
struct Item {
  std::string id;       // "anatomy/3", "HumanEval/12"
  std::string subject;  // name of the item's file without extensions
  std::string prompt;
  std::string answer;                // generate: the right answer, as it is compared; "": unknown (CEval's test split)
  std::vector<std::string> choices;  // likelihood: the choices; a blank is put between the prompt and each choice
  std::vector<int64_t> right;        // likelihood: indices of the right choices
  bool several = false;              // likelihood: true if samples write `right` as a list, not as one number
  // HumanEval: the program is `code` and the model's answer, then `test`, which calls `entry`.
  std::string code, test, entry;
};

}  // namespace ravine
