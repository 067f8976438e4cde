#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace ravine::jinja {
namespace {

constexpr int kDeepest = 100;      // limit of nested statements and expressions
constexpr int kDeepestTree = 500;  // limit of the tree's depth, with chains like a + b + c + ..

}  // namespace

ExpressionParser::Deeper::Deeper(ExpressionParser& p) : parser(p) {
  if (++p.depth_ > kDeepest)
    p.wrong(fmt::format("nested too deeply, more than {} brackets and blocks within each other", kDeepest));
}

void ExpressionParser::wrong(const std::string& what) const { raise("line {}: {}", now().line, what); }

Token ExpressionParser::take() { return at_ + 1 < t_.size() ? t_[at_++] : t_[at_]; }

void ExpressionParser::want_op(std::string_view op) {
  if (!skip_op(op)) wrong(fmt::format("'{}' expected", op));
}

std::string ExpressionParser::want_name() {
  if (now().kind != TokenKind::name) wrong("a name expected");
  return take().text;
}

void ExpressionParser::end_tag() {
  if (now().kind != TokenKind::block_end) wrong(fmt::format("unexpected '{}' in a block", shown(now().text)));
  take();
}

NodePtr ExpressionParser::make(NodeKind kind, std::string text) const {
  auto n = std::make_unique<Node>();
  n->kind = kind;
  n->line = now().line;
  n->text = std::move(text);
  return n;
}

void ExpressionParser::deepen(Node& n, const NodePtr& child) const {
  if (child) n.depth = std::max(n.depth, child->depth + 1);
  if (n.depth > kDeepestTree)
    wrong(fmt::format("nested too deeply, more than {} expressions and blocks within each other", kDeepestTree));
}

void ExpressionParser::push(Node& n, NodePtr child) const {
  deepen(n, child);
  n.children.push_back(std::move(child));
}

NodePtr ExpressionParser::tuple(bool with_condition) {
  auto one = [&] { return with_condition ? expression() : logical_or(); };
  NodePtr first = one();
  if (!is_op(",")) return first;
  NodePtr all = make_of(NodeKind::tuple, "", std::move(first));
  while (skip_op(",")) {
    if (now().kind == TokenKind::block_end || now().kind == TokenKind::variable_end || is_op(")")) break;
    push(*all, one());
  }
  return all;
}

NodePtr ExpressionParser::expression() {
  Deeper deeper(*this);
  NodePtr value = logical_or();
  while (skip_name("if")) {
    NodePtr condition = logical_or();
    NodePtr other = skip_name("else") ? expression() : nullptr;
    value = make_of(NodeKind::condition, "", std::move(condition), std::move(value), std::move(other));
  }
  return value;
}

NodePtr ExpressionParser::logical_or() {
  NodePtr left = logical_and();
  while (skip_name("or")) left = make_of(NodeKind::binary, "or", std::move(left), logical_and());
  return left;
}

NodePtr ExpressionParser::logical_and() {
  NodePtr left = logical_not();
  while (skip_name("and")) left = make_of(NodeKind::binary, "and", std::move(left), logical_not());
  return left;
}

NodePtr ExpressionParser::logical_not() {
  Deeper deeper(*this);
  if (is_name("not")) {
    take();
    return make_of(NodeKind::unary, "not", logical_not());
  }
  return comparison();
}

NodePtr ExpressionParser::comparison() {
  NodePtr left = sum();
  NodePtr all;
  for (;;) {
    std::string op;
    for (std::string_view o : {"==", "!=", "<=", ">=", "<", ">"})
      if (is_op(o)) op = o;
    if (!op.empty()) {
      take();
    } else if (is_name("in")) {
      take();
      op = "in";
    } else if (is_name("not") && next_is_name("in")) {
      take();
      take();
      op = "not in";
    } else {
      break;
    }
    if (!all) all = make_of(NodeKind::compare, "", std::move(left));
    all->names.push_back(op);
    push(*all, sum());
  }
  return all ? std::move(all) : std::move(left);
}

NodePtr ExpressionParser::chain(NodePtr (ExpressionParser::*inner)(), std::initializer_list<std::string_view> ops) {
  NodePtr left = (this->*inner)();
  for (;;) {
    auto op = std::find_if(ops.begin(), ops.end(), [&](std::string_view o) { return is_op(o); });
    if (op == ops.end()) return left;
    take();
    NodePtr right = (this->*inner)();
    left = make_of(NodeKind::binary, std::string(*op), std::move(left), std::move(right));
  }
}

NodePtr ExpressionParser::sum() { return chain(&ExpressionParser::concat, {"+", "-"}); }
NodePtr ExpressionParser::concat() { return chain(&ExpressionParser::product, {"~"}); }

NodePtr ExpressionParser::product() { return chain(&ExpressionParser::power, {"*", "/", "//", "%"}); }
NodePtr ExpressionParser::power() { return chain(&ExpressionParser::any_unary, {"**"}); }

NodePtr ExpressionParser::any_unary() { return unary(true); }

NodePtr ExpressionParser::unary(bool with_filters) {
  Deeper deeper(*this);
  NodePtr n;
  if (is_op("-") || is_op("+")) {
    std::string op = take().text;
    n = make_of(NodeKind::unary, op, unary(false));
  } else {
    n = postfix(primary());
  }
  return with_filters ? filters(std::move(n), false) : std::move(n);
}

NodePtr ExpressionParser::primary() {
  Token t = now();
  if (t.kind == TokenKind::name) {
    take();
    NodePtr n = make(NodeKind::constant);
    if (t.text == "true" || t.text == "True" || t.text == "false" || t.text == "False") {
      n->value = Value(t.text[0] == 't' || t.text[0] == 'T');
    } else if (t.text == "none" || t.text == "None") {
      n->value = None{};
    } else {
      n->kind = NodeKind::name;
      n->text = t.text;
    }
    return n;
  }
  if (t.kind == TokenKind::string) {
    NodePtr n = make(NodeKind::constant);
    std::string s;
    while (now().kind == TokenKind::string) s += take().text;
    n->value = Value(std::move(s));
    return n;
  }
  if (t.kind == TokenKind::integer || t.kind == TokenKind::number) {
    take();
    NodePtr n = make(NodeKind::constant);
    const char* end = t.text.data() + t.text.size();
    if (t.kind == TokenKind::integer) {
      int64_t i = 0;
      const auto read = std::from_chars(t.text.data(), end, i);
      if (read.ec != std::errc{} || read.ptr != end) wrong("a whole number beyond 64 bits");
      n->value = Value(i);
    } else {
      n->value = Value(std::strtod(t.text.c_str(), nullptr));  // 1e400 is inf, as in Python
    }
    return n;
  }
  if (skip_op("(")) {
    if (skip_op(")")) return make(NodeKind::tuple);
    NodePtr n = tuple();
    want_op(")");
    return n;
  }
  if (skip_op("[")) {
    NodePtr n = make(NodeKind::list);
    while (!is_op("]")) {
      push(*n, expression());
      if (!is_op("]")) want_op(",");
    }
    take();
    return n;
  }
  if (skip_op("{")) {
    NodePtr n = make(NodeKind::dict);
    while (!is_op("}")) {
      push(*n, expression());
      want_op(":");
      push(*n, expression());
      if (!is_op("}")) want_op(",");
    }
    take();
    return n;
  }
  wrong(fmt::format("unexpected '{}'", t.text.empty() ? "end" : shown(t.text)));
}

void ExpressionParser::arguments(Node& n) {
  want_op("(");
  while (!is_op(")")) {
    if (skip_op("*")) {
      n.names.emplace_back("*");
    } else if (skip_op("**")) {
      n.names.emplace_back("**");
    } else if (now().kind == TokenKind::name && at_ + 1 < t_.size() && t_[at_ + 1].kind == TokenKind::op &&
               t_[at_ + 1].text == "=") {
      n.names.push_back(take().text);
      take();
    } else {
      n.names.emplace_back();
    }
    push(n, expression());
    if (!is_op(")")) want_op(",");
  }
  take();
}

NodePtr ExpressionParser::call(NodePtr of) {
  NodePtr n = make_of(NodeKind::call, "", std::move(of));
  arguments(*n);
  return n;
}

NodePtr ExpressionParser::postfix(NodePtr n) {
  for (;;) {
    if (skip_op(".")) {
      if (now().kind == TokenKind::integer) {
        NodePtr index = make(NodeKind::constant);
        const std::string text = take().text;
        int64_t i = 0;
        if (std::from_chars(text.data(), text.data() + text.size(), i).ec != std::errc{}) wrong("a number is too large");
        index->value = Value(i);
        n = make_of(NodeKind::item, "", std::move(n), std::move(index));
      } else {
        std::string name = want_name();
        n = make_of(NodeKind::attribute, name, std::move(n));
      }
    } else if (skip_op("[")) {
      n = subscript(std::move(n));
    } else if (is_op("(")) {
      n = call(std::move(n));
    } else {
      return n;
    }
  }
}

NodePtr ExpressionParser::subscript(NodePtr n) {
  NodePtr part[3];
  int colons = 0;
  for (;;) {
    if (is_op("]")) break;
    if (skip_op(":")) {
      if (++colons > 2) wrong("a slice has at most three parts");
      continue;
    }
    if (part[colons]) wrong("']' expected");
    part[colons] = tuple();
  }
  take();
  if (colons == 0) {
    if (!part[0]) wrong("an index expected");
    return make_of(NodeKind::item, "", std::move(n), std::move(part[0]));
  }
  return make_of(NodeKind::slice, "", std::move(n), std::move(part[0]), std::move(part[1]), std::move(part[2]));
}

NodePtr ExpressionParser::filters(NodePtr n, bool first) {
  for (;;) {
    if (first || skip_op("|")) {
      first = false;
      std::string name = want_name();
      NodePtr f = make_of(NodeKind::filter, name, std::move(n));
      if (is_op("(")) arguments(*f);
      n = std::move(f);
    } else if (is_name("is")) {
      take();
      bool negated = skip_name("not");
      NodePtr t = make_of(NodeKind::test, want_name(), std::move(n));
      if (is_op("(")) {
        arguments(*t);
      } else if (takes_argument() && !is_name("else") && !is_name("or") && !is_name("and") && !is_name("is") &&
                 !is_name("if") && !is_name("in") && !is_name("not") && !is_name("recursive")) {
        t->names.emplace_back();
        push(*t, postfix(primary()));
      }
      n = negated ? make_of(NodeKind::unary, "not", std::move(t)) : std::move(t);
    } else if (is_op("(")) {
      n = call(std::move(n));
    } else {
      return n;
    }
  }
}

bool ExpressionParser::takes_argument() const {
  switch (now().kind) {
    case TokenKind::name:
    case TokenKind::string:
    case TokenKind::integer:
    case TokenKind::number:
      return true;
    default:
      return is_op("[") || is_op("{");
  }
}

}  // namespace ravine::jinja
