// The command lines of Megatron-LM and ModelLink.
#pragma once
#include <string>
#include <vector>

#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// The table that the program has, and what the words come to by it. Of a program that trains: settings of a run. Of others:
// Translation::command. A program that is not known is a UserError.
Translation translate_megatron(const std::vector<PlacedWord>& words, const MegatronJob& job);

// `tools/preprocess_data.py`'s flags among the words of our own `preprocess`: these become ours, all others stay. Which word is
// whose follows from its name; none is both.
std::vector<std::string> preprocess_words(const std::vector<std::string>& words);

}  // namespace ravine
