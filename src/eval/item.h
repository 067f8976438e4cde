// A question of a benchmark in the form of a protocol.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config/choice.h"

namespace ravine {

// generate: ModelLink's evaluation (tasks/evaluation): parses a greedy answer. likelihood: multiple choice as in
// lm-evaluation-harness: takes the choice that is most likely after the prompt.
enum class Protocol : uint8_t { generate, likelihood };
constexpr auto names_of(Protocol) {
  using enum Protocol;
  return std::to_array<ValueName<Protocol>>({{generate, "generate"}, {likelihood, "likelihood"}});
}

enum class EvalSplit : uint8_t { val, test };
constexpr auto names_of(EvalSplit) {
  return std::to_array<ValueName<EvalSplit>>({{EvalSplit::val, "val"}, {EvalSplit::test, "test"}});
}

// A question of a benchmark.
struct Item {
  std::string id;       // "anatomy/3", "HumanEval/12"
  std::string subject;  // file name without extensions
  std::string prompt;
  std::string answer;                // generate: the right answer, as compared; "": unknown (CEval's test split)
  std::vector<std::string> choices;  // likelihood; a blank is put between the prompt and each choice
  std::vector<int64_t> right;        // likelihood: indices of the right choices
  bool several = false;              // likelihood: `right` is written as a list
  // HumanEval: the program is `code` and the model's answer, then `test`, which calls `entry`.
  std::string code, test, entry;
};

}  // namespace ravine
