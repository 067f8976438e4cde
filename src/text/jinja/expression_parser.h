// Parses the expressions of templates; the base class of the parser of statements (parser.cpp). Wrong syntax is a
// TemplateError with the line.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/tree.h"

namespace ravine::jinja {

class ExpressionParser {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : t_(std::move(tokens)) {}

  // Counts one level of nested brackets or blocks while the object exists. Too many levels are a TemplateError.
  struct Deeper {
    explicit Deeper(ExpressionParser& p);
    ~Deeper() { --parser.depth_; }
    ExpressionParser& parser;
  };

  [[noreturn]] void wrong(const std::string& what) const;
  const Token& now() const { return t_[at_]; }
  bool is_op(std::string_view op) const { return now().kind == TokenKind::op && now().text == op; }
  bool is_name(std::string_view name) const { return now().kind == TokenKind::name && now().text == name; }
  bool next_is_name(std::string_view name) const {
    return at_ + 1 < t_.size() && t_[at_ + 1].kind == TokenKind::name && t_[at_ + 1].text == name;
  }
  bool skip_op(std::string_view op) { return is_op(op) ? (take(), true) : false; }
  bool skip_name(std::string_view name) { return is_name(name) ? (take(), true) : false; }
  Token take();
  void want_op(std::string_view op);
  std::string want_name();
  void end_tag();
  NodePtr make(NodeKind kind, std::string text = "") const;
  void deepen(Node& n, const NodePtr& child) const;
  void push(Node& n, NodePtr child) const;
  template <class... N>
  NodePtr make_of(NodeKind kind, std::string text, N... children) const {
    NodePtr n = make(kind, std::move(text));
    (push(*n, std::move(children)), ...);
    return n;
  }

  // Parses an expression, or several with commas between them, which are a tuple. with_condition: false stops before an
  // `if`.
  NodePtr tuple(bool with_condition = true);
  NodePtr expression();
  NodePtr unary(bool with_filters);
  // Parses the filters, tests and calls that follow the value n. first: true if the next token is the name of a filter,
  // without '|' before it, as in {% filter NAME %}.
  NodePtr filters(NodePtr n, bool first);

  std::vector<Token> t_;
  size_t at_ = 0;

 private:
  NodePtr logical_or();
  NodePtr logical_and();
  NodePtr logical_not();
  NodePtr comparison();
  NodePtr chain(NodePtr (ExpressionParser::*inner)(), std::initializer_list<std::string_view> ops);
  NodePtr sum();
  NodePtr concat();
  NodePtr product();
  NodePtr power();
  NodePtr any_unary();
  NodePtr primary();
  void arguments(Node& n);
  NodePtr call(NodePtr of);
  NodePtr postfix(NodePtr n);
  NodePtr subscript(NodePtr n);
  bool takes_argument() const;

  int depth_ = 0;
};

}  // namespace ravine::jinja
