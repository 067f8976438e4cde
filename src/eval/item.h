// One question of a benchmark, as a protocol puts it to a model.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config/choice.h"

namespace ravine {

// generate: ModelLink's evaluation (tasks/evaluation): a greedy answer is parsed. likelihood: lm-evaluation-harness' multiple
// choice: the choice that is most likely behind the prompt.
enum class Protocol : uint8_t { generate, likelihood };
constexpr auto names_of(Protocol) {
  using enum Protocol;
  return std::to_array<ValueName<Protocol>>({{generate, "generate"}, {likelihood, "likelihood"}});
}

enum class EvalSplit : uint8_t { val, test };
constexpr auto names_of(EvalSplit) {
  return std::to_array<ValueName<EvalSplit>>({{EvalSplit::val, "val"}, {EvalSplit::test, "test"}});
}

struct Item {
  std::string id;       // "anatomy/3", "HumanEval/12"
  std::string subject;  // name of the file without its endings
  std::string prompt;
  std::string answer;                // generate: what is right, as it is compared; "": nobody knows (CEval's test split)
  std::vector<std::string> choices;  // likelihood; a blank goes between the prompt and each
  std::vector<int64_t> right;        // likelihood: choices that are right
  bool several = false;              // likelihood: `right` is written as a list
  // HumanEval: the program is `code` and what the model adds, then `test`, which calls `entry`.
  std::string code, test, entry;
};

}  // namespace ravine
