// The data of the runs that `ravine init` makes. The user's data is checked before any file is made. The generated data
// is the manual of Ravine as text, as questions with answers, or as pairs of answers.
#pragma once
#include <string>
#include <vector>

#include "apps/command.h"

namespace ravine {

enum class InitData : uint8_t { text, conversations, pairs };

// The request to `ravine init`, which messages repeat as a command.
struct InitRequest {
  InitData wanted;
  std::string kind, folder, text_key, model;
};

// Throws a UserError if a file of `data` has data of another kind than the request, or data that init cannot write a
// run for; the message names the command that takes the data. First records that training would refuse are a UserError
// too.
void check_init_data(const std::string& data, const InitRequest& request);

// Returns the words in the conversations or pairs of `data`, to train a tokenizer on.
std::string init_words(const std::string& data, InitData kind);

// Returns the manual of Ravine as a text to train on: the help pages, then every option with its meaning.
std::string manual_text(const std::vector<Command>& commands);
// Returns the demo data of `ravine init`: JSON records with questions on commands and the most important options, and
// their answers. For pairs, the rejected answer does not help.
std::string manual_records(const std::vector<Command>& commands, InitData kind);

}  // namespace ravine
