// The tree of a template: what its parsers make and a render walks.
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
  slice,      // [0][1:2:3], absent ones are null
  call,       // [0](..); arguments behind
  filter,     // [0] | text(..)
  test,       // [0] is text(..)
  unary,      // text: not - +
  binary,     // [0] text [1]: and or + - * / // % ** ~
  compare,    // [0] then pairs of operator (names) and operand
  condition,  // [1] if [0] else [2] (may be null)
  // statements
  output,        // text, or children one after the other
  block,         // children one after the other
  with_block,    // body, then target, value, target, value, ..
  named_block,   // body; text
  if_block,      // condition, body, condition, body, .., else
  for_block,     // target, iterable, filter (or null), body, else (or null)
  set,           // target, value
  set_block,     // target, body; filters are wrapped around by the parser: children[2] is the filter chain over name ""
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
  std::vector<std::string> names;  // of arguments ("" by place, "*" and "**" spread), parameters, compare's operators
  std::unique_ptr<Node> body;
  bool recursive = false;  // of a for
  bool scoped = false;     // of a named block: it sees the variables of the blocks around it
  int depth = 0;           // of the tree below
};
using NodePtr = std::unique_ptr<Node>;

}  // namespace ravine::jinja
