// Shell completion: the tables of commands and options as words. One function per shell makes a script, which completes
// without a call of ravine.
#pragma once
#include <string>
#include <vector>

#include "apps/command.h"

namespace ravine {

// A flag or option that the shell completes, its help, and the values that may follow it.
struct CompletionWord {
  std::string word, help;
  std::vector<std::string> values;
  bool takes_value = false;  // true for an option, and for a flag that takes a value
};

// A command, with the words that the shell completes after its name.
struct CompletionCommand {
  std::string name, summary;  // name: "train", "tokenizer encode"
  std::vector<CompletionWord> flags;
  std::vector<std::string> names;       // choices of words without a flag
  std::vector<std::string> sections;    // config sections that it takes completely
  std::vector<CompletionWord> options;  // options of other sections
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
