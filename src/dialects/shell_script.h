// The result of following a shell script: the programs that it starts and the files that it would write.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ravine {

// A word of a command in a script, with its variables expanded.
struct ScriptWord {
  std::string text;
  int line = 0;         // line of the script, from 1
  std::string problem;  // the reason why the text cannot be known without a shell; "": the text is known
  int problem_line = 0;
  std::string file = "";  // the file that has the word, if it is another script; "": the script itself
};

using ScriptCommand = std::vector<ScriptWord>;  // a program and its words; at least one word

// The result of following a shell script: the programs that it would start, and the files that it would write.
struct LaunchScript {
  std::string name;
  std::vector<ScriptCommand> commands;            // in the order in which the script starts them
  std::map<std::string, ScriptWord> written;      // files that cat, tee, echo and printf would write, by path
  std::map<std::string, ScriptWord> environment;  // variables for its programs, in addition to this process's
  std::vector<ScriptWord> missing;                // files that it sources or starts and that do not exist
  ScriptWord ended;                               // the `exit` that ends the script; its line is 0 if there is none
  int64_t launch = 0;                             // number of the launch that the user chose, from 1; 0: none
  int64_t steps = 0, spent = 0;                   // number of followed commands; bytes of expanded words
  int depth = 0;                                  // nesting of the command that is followed now
};

// The words after `--script FILE --`: $1, $2, .. of the script.
struct ShellArguments {
  std::vector<std::string> words = {};
  bool given = false;
};

// The largest size of a script in bytes. Its expanded words may have 16 times as many.
constexpr int64_t kScriptBytes = int64_t{1} << 20;

}  // namespace ravine
