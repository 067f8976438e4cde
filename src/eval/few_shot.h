// Worked examples for tasks whose data have none: from --template, else from ModelLink's tree, else Ravine's.
//
//   tasks/evaluation/eval_impl/fewshot_template/   in the current folder, next to the data or above them.
//   gsm8k_3shot_template.json  {"few_shot": TEXT}
//   bbh_template.json, mmlu_5shot_template.json, ceval_5shot_template.json  {SUBJECT: TEXT}
//   AGI_fewshot.json           {SUBJECT: [TEXT, text before the options, text after the options]}
#pragma once
#include <string>
#include <vector>

#include "eval/templates.h"

namespace ravine {

// Adds to `given` the worked examples that it lacks, from ModelLink's tree or Ravine's own. Does nothing if `given` is
// a user's file of examples (Templates::is_of_examples): tasks that this file lacks then have no examples. data: the
// folders of the benchmark data, near which the tree is searched.
void fill_few_shot(Templates& given, const std::vector<std::string>& data);

}  // namespace ravine
