// Worked examples that we have written, for tasks whose data hold none: GSM8K, BIG-Bench-Hard and AGIEval. Other examples give other
// scores: those of ModelLink are texts of its own tree (few_shot.h).
#pragma once
#include "base/json.h"

namespace ravine {

// As a file of --template has them (templates.h).
Json own_examples();
// The part of AGIEval: of each subject the worked examples, what stands before its options, and what behind.
Json own_exam_examples();

}  // namespace ravine
