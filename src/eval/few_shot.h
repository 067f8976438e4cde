// Worked examples of tasks whose data hold none: the user's (--template), else those of ModelLink's tree, else our own.
//
//   tasks/evaluation/eval_impl/fewshot_template/   in the folder that we are in, or beside the data or above them
//   gsm8k_3shot_template.json  {"few_shot": TEXT}
//   bbh_template.json, mmlu_5shot_template.json, ceval_5shot_template.json  {SUBJECT: TEXT}
//   AGI_fewshot.json           {SUBJECT: [TEXT, between question and options, behind the options]}
#pragma once
#include <string>
#include <vector>

#include "eval/templates.h"

namespace ravine {

// Adds to `given` the texts that it lacks, but nothing to a file of examples; `data`: the folders of the data.
void fill_few_shot(Templates& given, const std::vector<std::string>& data);

}  // namespace ravine
