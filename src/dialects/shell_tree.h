// The syntax tree of a bash script. Words stay as they are written, quotes and $ included.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// A word as written; an assignment of an array, NAME=( .. ), has its items.
struct ShellWord {
  std::string text;
  int line = 0;  // from 1
  bool array = false;
  std::vector<ShellWord> items;
};

struct ShellRedirect {
  std::string sign;    // > >> < << <<< >& &>
  ShellWord target;    // of <<: the text of the document
  bool plain = false;  // of <<: nothing in it is replaced
};

struct ShellNode;
using ShellNodePtr = std::shared_ptr<const ShellNode>;

struct ShellBranch {  // of if: condition and body; of case: patterns and body
  ShellNodePtr condition, body;
  std::vector<ShellWord> patterns;
};

struct ShellNode {
  enum class Kind {
    simple,      // words, assignments first
    test,        // [[ words ]]
    arithmetic,  // (( text ))
    sequence,    // parts, with the sign behind each but the last: ; & && || and | of a pipe
    group,       // { parts[0]; }
    subshell,    // ( parts[0] )
    if_,         // branches; parts[0]: else
    for_,        // name, words (none and `bare`: the arguments), parts[0]: the body
    counted,     // for ((a; b; c)): words; parts[0]: the body
    while_,      // parts: condition, body; name: while or until
    case_,       // words[0], branches
    function,    // name, parts[0]
  };
  Kind kind = Kind::simple;
  int line = 0;
  std::string text;
  bool bare = false, negated = false;
  std::vector<ShellWord> words;
  std::vector<ShellNodePtr> parts;
  std::vector<std::string> signs;  // as long as parts; "" behind the last
  std::vector<ShellBranch> branches;
  std::vector<std::shared_ptr<ShellRedirect>> redirects;
};

using ShellKind = ShellNode::Kind;

// Parses a script or the inside of $( ). Syntax that is not bash's, or deeper than 100 levels, is a UserError at name:line, lines
// counted from `line`.
ShellNodePtr parse_shell(std::string_view text, const std::string& name, int line = 1);

// `NAME=`, `NAME+=`, `NAME[i]=`: where the value begins; 0 if the word assigns nothing.
size_t assigned_at(std::string_view word);

}  // namespace ravine
