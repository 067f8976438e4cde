// The result of following a shell script: the programs that it starts, the files that it would write.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ravine {

struct ScriptWord {
  std::string text;
  int line = 0;         // from 1
  std::string trouble;  // why it is not known; empty: it is
  int trouble_line = 0;
  std::string file = "";  // that it stands in; empty: the script's
};

using ScriptCommand = std::vector<ScriptWord>;  // a program with its words, expanded; at least one

struct LaunchScript {
  std::string name;
  std::vector<ScriptCommand> commands;            // in the order in which the script starts them
  std::map<std::string, ScriptWord> written;      // the files that cat, tee and echo would write, by their paths
  std::map<std::string, ScriptWord> environment;  // what its programs find there beyond that of this process
  std::vector<ScriptWord> missing;                // files that it sources or starts, and that are not there
  ScriptWord ended;                               // the exit at which the script ends; line 0: there is none
  int64_t launch = 0;                             // which of several launches is meant, from 1; 0: the only one
  int64_t steps = 0, spent = 0;                   // commands followed, bytes of expanded words
  int depth = 0;                                  // commands in commands that are being followed now
};

// The words behind `--script FILE --`: $1, $2, .. of the script.
struct ShellArguments {
  std::vector<std::string> words = {};
  bool given = false;
};

constexpr int64_t kScriptBytes = int64_t{1} << 20;  // of a script, and of all that its words expand to

}  // namespace ravine
