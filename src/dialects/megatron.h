// Translates the command lines of Megatron-LM and ModelLink.
#pragma once
#include <string>
#include <vector>

#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// Translates the words with the table of job.program. A training program leads to settings of a run, any other program
// to Translation::command. An unknown program is a UserError.
Translation translate_megatron(const std::vector<PlacedWord>& words, const MegatronJob& job);

// Replaces the flags of `tools/preprocess_data.py` in the words of `ravine preprocess` by Ravine's flags; other words
// stay. The name of a flag decides its owner: no name is in both programs.
std::vector<std::string> preprocess_words(const std::vector<std::string>& words);

}  // namespace ravine
