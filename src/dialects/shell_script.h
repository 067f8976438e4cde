// The result of following a shell script: the programs that it starts and the files that it would write.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ravine {

// An expanded word.
struct ScriptWord {
  std::string text;
  int line = 0;         // from 1
  std::string trouble;  // why the word is not known; empty: it is known
  int trouble_line = 0;
  std::string file = "";  // file with the word; empty: the script
};

using ScriptCommand = std::vector<ScriptWord>;  // a program and its words; at least one word

// The result.
struct LaunchScript {
  std::string name;
  std::vector<ScriptCommand> commands;            // in the order in which the script starts them
  std::map<std::string, ScriptWord> written;      // files that cat, tee, echo and printf would write, by path
  std::map<std::string, ScriptWord> environment;  // variables for its programs, in addition to this process's
  std::vector<ScriptWord> missing;                // files that it sources or starts and that do not exist
  ScriptWord ended;                               // the exit that ends the script; line 0: none
  int64_t launch = 0;                             // number of the chosen launch, from 1; 0: there is only one
  int64_t steps = 0, spent = 0;                   // number of followed commands; bytes of expanded words
  int depth = 0;                                  // nesting of the command that is followed now
};

// The words after `--script FILE --`: $1, $2, .. of the script.
struct ShellArguments {
  std::vector<std::string> words = {};
  bool given = false;
};

constexpr int64_t kScriptBytes = int64_t{1} << 20;  // most bytes of a script; 16 times as many for its expanded words

}  // namespace ravine
