// Ravine's worked examples for tasks whose data have none: GSM8K, BIG-Bench-Hard and AGIEval. Scores depend on the
// examples: ModelLink's are in its own tree (few_shot.h).
#pragma once
#include "base/json.h"

namespace ravine {

// Returns all examples, in the format of a --template file (templates.h).
Json own_examples();
// Returns the examples of AGIEval: for each subject the worked examples, the text before the options, and the text
// after them.
Json own_exam_examples();

}  // namespace ravine
