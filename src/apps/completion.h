// What a shell can be told of the program: the tables of commands and options, as words. One function per shell makes a script
// of them that needs no call of ravine to complete.
#pragma once
#include <string>
#include <vector>

#include "apps/command.h"

namespace ravine {

// A word that may be typed, with what it means and the words that may follow it (a flag's values, an option's choices).
struct CompletionWord {
  std::string word, help;
  std::vector<std::string> values;
  bool takes_value = false;  // a flag that is followed by a word, or an option
};

struct CompletionCommand {
  std::string name, summary;  // name: "train", "tokenizer encode"
  std::vector<CompletionWord> flags;
  std::vector<std::string> names;       // choices of words without a flag
  std::vector<std::string> sections;    // of the config that it takes whole
  std::vector<CompletionWord> options;  // of the others
  std::vector<CompletionCommand> actions;

  std::string last_word() const { return name.substr(name.rfind(' ') + 1); }
};

struct CompletionTables {
  struct Section {
    std::string name;
    std::vector<CompletionWord> options;  // word: "model.path"
  };
  std::vector<CompletionCommand> commands;
  std::vector<Section> sections;
};

CompletionTables completion_tables(const std::vector<Command>& commands);

std::string bash_completion(const CompletionTables& tables);
std::string zsh_completion(const CompletionTables& tables);
std::string fish_completion(const CompletionTables& tables);

}  // namespace ravine
