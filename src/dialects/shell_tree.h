// The syntax tree of a bash script. Words are not expanded: they keep their quotes and $.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// A word of a command as written, not expanded. For an assignment of an array, NAME=( .. ), `items` has the items of
// the array.
struct ShellWord {
  std::string text;
  int line = 0;  // from 1
  bool array = false;
  std::vector<ShellWord> items;
};

// A redirection of a command.
struct ShellRedirect {
  std::string sign;    // > >> < << <<< >& &>
  ShellWord target;    // for <<: the text of the here-document
  bool plain = false;  // for <<: the text is not expanded
};

struct ShellNode;
using ShellNodePtr = std::shared_ptr<const ShellNode>;

struct ShellBranch {  // for if: condition and body; for case: patterns and body
  ShellNodePtr condition, body;
  std::vector<ShellWord> patterns;
};

// A command in the syntax tree. The comments of Kind name the fields that a kind uses.
struct ShellNode {
  enum class Kind {
    simple,      // words, which begin with the assignments
    test,        // [[ words ]]
    arithmetic,  // (( text ))
    sequence,    // parts, and signs: the sign after each part: ; & && || or |
    group,       // { parts[0]; }
    subshell,    // ( parts[0] )
    if_,         // branches; parts[0]: else
    for_,        // text: the name; words (with `bare` the arguments); parts[0]: the body
    counted,     // for ((a; b; c)); text: "a; b; c"; parts[0]: the body
    while_,      // parts: condition, body; text: "while" or "until"
    case_,       // words[0]: the subject; branches
    function,    // text: the name; parts[0]: the body
  };
  Kind kind = Kind::simple;
  int line = 0;
  std::string text;
  bool bare = false, negated = false;
  std::vector<ShellWord> words;
  std::vector<ShellNodePtr> parts;
  std::vector<std::string> signs;  // as many as parts; "" after the last
  std::vector<ShellBranch> branches;
  std::vector<std::shared_ptr<ShellRedirect>> redirects;
};

using ShellKind = ShellNode::Kind;

// Returns the syntax tree of a script, or of the text in $( ). Invalid syntax and more than 100 levels are UserErrors
// at name:line. line: the number of the first line of the text.
ShellNodePtr parse_shell(std::string_view text, const std::string& name, int line = 1);

// Returns the index at which the value begins in an assignment `NAME=value`, `NAME+=value` or `NAME[i]=value`; 0 if the
// word is not an assignment.
size_t assigned_at(std::string_view word);

}  // namespace ravine
