// Translates the command lines of Megatron-LM and ModelLink.
#pragma once
#include <string>
#include <vector>

#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// Translates the command line of a program of Megatron-LM or ModelLink, which job.program names. words: its flags. For
// a training program the result has the settings of a run; for any other program it has Translation::command. An
// unknown program is a UserError.
Translation translate_megatron(const std::vector<PlacedWord>& words, const MegatronJob& job);

// Returns the words of a command line of `ravine preprocess`, with the flags of Megatron's tools/preprocess_data.py in
// it replaced by Ravine's flags; other words stay. No flag name is in both programs.
std::vector<std::string> preprocess_words(const std::vector<std::string>& words);

}  // namespace ravine
