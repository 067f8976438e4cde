// What `ravine init` makes runs on: data of the user, which is looked at before anything is made, or this program's manual as
// text, as questions with answers, as pairs of answers.
#pragma once
#include <string>
#include <vector>

#include "apps/command.h"

namespace ravine {

enum class InitData : uint8_t { text, conversations, pairs };

// What was asked of init, for messages.
struct InitRequest {
  InitData wanted;
  std::string kind, folder, text_key, model;
};

// A UserError where a file holds data of another kind, with the command that takes it, or such as init cannot write a run for;
// and where the first records are such as training would refuse.
void check_init_data(const std::string& data, const InitRequest& request);

// The words of conversations or of pairs, for a tokenizer that is to know them.
std::string init_words(const std::string& data, InitData kind);

// The manual as prose: help pages, then every option with its meaning.
std::string manual_text(const std::vector<Command>& commands);
// The heart of it as a file of JSON: what commands and the first options do; of pairs an answer that helps nobody is rejected.
std::string manual_records(const std::vector<Command>& commands, InitData kind);

}  // namespace ravine
