// Ravine's worked examples for tasks whose data have none: GSM8K, BIG-Bench-Hard and AGIEval. Scores depend on the
// examples: ModelLink's are in its own tree (few_shot.h).
#pragma once
#include "base/json.h"

namespace ravine {

// Returns all of Ravine's worked examples, as JSON in the format of a --template file (templates.h).
Json own_examples();
// Returns Ravine's worked examples of AGIEval as JSON, {SUBJECT: [worked examples, text before the options, text after
// the options]}.
Json own_exam_examples();

}  // namespace ravine
