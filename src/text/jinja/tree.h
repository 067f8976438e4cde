// The tree of a template. Parsers build it; a rendering walks it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace ravine::jinja {

enum class NodeKind {
  // expressions
  constant,   // value
  name,       // text
  list,       // children
  tuple,      // children
  dict,       // children: key, value, key, value, ..
  attribute,  // [0].text
  item,       // [0][[1]]
  slice,      // [0][1:2:3], missing parts are null
  call,       // [0](..); arguments follow
  filter,     // [0] | text(..)
  test,       // [0] is text(..)
  unary,      // text: not - +
  binary,     // [0] text [1]: and or + - * / // % ** ~
  compare,    // [0], then pairs of operator (names) and operand
  condition,  // [1] if [0] else [2] (may be null)
  // statements
  output,       // text, or children in order
  block,        // children in order
  with_block,   // body, then target, value, target, value, ..
  named_block,  // body; text
  if_block,     // condition, body, condition, body, .., else
  for_block,    // target, iterable, filter (or null), body, else (or null)
  set,          // target, value
  // Target, body, filters: children[2] is the filter chain over the name "", or null.
  set_block,
  macro,         // text; names with defaults (null: none); body in body
  call_block,    // call, body
  filter_block,  // filter chain over name "", body
  break_loop,
  continue_loop,
};

struct Node {
  NodeKind kind;
  int line = 0;
  std::string text;
  Value value;
  std::vector<std::unique_ptr<Node>> children;
  // Names of arguments ("": positional, "*" and "**": spread), of parameters, or the operators of compare.
  std::vector<std::string> names;
  std::unique_ptr<Node> body;
  bool recursive = false;  // of a for block
  bool scoped = false;     // of a named block: it sees the variables of the surrounding blocks
  int depth = 0;           // depth of the tree below
};
using NodePtr = std::unique_ptr<Node>;

}  // namespace ravine::jinja
