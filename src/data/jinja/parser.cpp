#include "data/jinja/parser.h"

#include <algorithm>
#include <charconv>

#include "data/jinja/lexer.h"

namespace ravine::jinja {

namespace {

constexpr int kDeepest = 100;       // of statements and expressions within each other
constexpr int kDeepestTree = 500;    // with chains like a + b + c + ..

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : t_(std::move(tokens)) {}

  NodePtr run() {
    NodePtr all = body({});
    if (now().kind != TokenKind::end) wrong("unexpected end of a block");
    return all;
  }

 private:
  struct Deeper {
    explicit Deeper(Parser& p) : parser(p) {
      if (++p.depth_ > kDeepest) p.wrong(fmt::format("nested too deeply, more than {} brackets and blocks within each other", kDeepest));
    }
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  [[noreturn]] void wrong(const std::string& what) const { raise("line {}: {}", now().line, what); }
  const Token& now() const { return t_[at_]; }
  Token take() { return at_ + 1 < t_.size() ? t_[at_++] : t_[at_]; }
  bool is_op(std::string_view op) const { return now().kind == TokenKind::op && now().text == op; }
  bool is_name(std::string_view name) const { return now().kind == TokenKind::name && now().text == name; }
  bool next_is_name(std::string_view name) const { return at_ + 1 < t_.size() && t_[at_ + 1].kind == TokenKind::name && t_[at_ + 1].text == name; }
  bool skip_op(std::string_view op) { return is_op(op) ? (take(), true) : false; }
  bool skip_name(std::string_view name) { return is_name(name) ? (take(), true) : false; }
  void want_op(std::string_view op) {
    if (!skip_op(op)) wrong(fmt::format("'{}' expected", op));
  }
  std::string want_name() {
    if (now().kind != TokenKind::name) wrong("a name expected");
    return take().text;
  }
  void end_tag() {
    if (now().kind != TokenKind::block_end) wrong(fmt::format("unexpected '{}' in a block", shown(now().text)));
    take();
  }
  NodePtr make(NodeKind kind, std::string text = "") const {
    auto n = std::make_unique<Node>();
    n->kind = kind;
    n->line = now().line;
    n->text = std::move(text);
    return n;
  }
  void deepen(Node& n, const NodePtr& child) const {
    if (child) n.depth = std::max(n.depth, child->depth + 1);
    if (n.depth > kDeepestTree) wrong(fmt::format("nested too deeply, more than {} expressions and blocks within each other", kDeepestTree));
  }
  void push(Node& n, NodePtr child) const {
    deepen(n, child);
    n.children.push_back(std::move(child));
  }
  template <class... N>
  NodePtr make_of(NodeKind kind, std::string text, N... children) const {
    NodePtr n = make(kind, std::move(text));
    (push(*n, std::move(children)), ...);
    return n;
  }

  // Statements up to a block whose name is in `ends`; that name is the next token.
  NodePtr body(const std::vector<std::string_view>& ends) {
    Deeper deeper(*this);
    NodePtr all = make(NodeKind::block);
    for (;;) {
      switch (now().kind) {
        case TokenKind::text:
          push(*all, make(NodeKind::output, take().text));
          break;
        case TokenKind::variable_begin: {
          take();
          NodePtr out = make_of(NodeKind::output, "", tuple());
          if (now().kind != TokenKind::variable_end) wrong(fmt::format("unexpected '{}'", shown(now().text)));
          take();
          push(*all, std::move(out));
          break;
        }
        case TokenKind::block_begin:
          if (at_ + 1 < t_.size() && t_[at_ + 1].kind == TokenKind::name &&
              std::find(ends.begin(), ends.end(), t_[at_ + 1].text) != ends.end()) {
            take();
            return all;
          }
          take();
          if (NodePtr s = statement()) push(*all, std::move(s));
          break;
        default:
          if (!ends.empty()) wrong(fmt::format("'{}' expected before the end", ends.back()));
          return all;
      }
    }
  }
  NodePtr body_to(std::string_view end) {
    end_tag();
    NodePtr b = body({end});
    take();
    end_tag();
    return b;
  }

  NodePtr statement() {
    std::string name = want_name();
    if (name == "if") return if_block();
    if (name == "for") return for_block();
    if (name == "set") return set();
    if (name == "macro") return macro();
    if (name == "call") return call_block();
    if (name == "filter") {
      NodePtr n = make(NodeKind::filter_block);
      push(*n, filters(make(NodeKind::name), true));
      push(*n, body_to("endfilter"));
      return n;
    }
    if (name == "generation") return body_to("endgeneration");  // marks what an assistant said, for training
    if (name == "break" || name == "continue") {
      if (loops_ == 0) wrong(fmt::format("'{}' outside a loop", name));
      NodePtr n = make(name == "break" ? NodeKind::break_loop : NodeKind::continue_loop);
      end_tag();
      return n;
    }
    wrong(fmt::format("unknown block '{}'", shown(name)));
  }

  NodePtr if_block() {
    NodePtr n = make(NodeKind::if_block);
    push(*n, tuple(false));
    end_tag();
    for (;;) {
      push(*n, body({"elif", "else", "endif"}));
      std::string word = take().text;
      if (word == "elif") {
        push(*n, tuple(false));
        end_tag();
        continue;
      }
      end_tag();
      if (word == "else") {
        push(*n, body({"endif"}));
        take();
        end_tag();
      }
      return n;
    }
  }

  NodePtr target() {  // names, or one attribute of a namespace
    NodePtr n = make(NodeKind::name, want_name());
    if (skip_op(".")) {
      NodePtr a = make(NodeKind::attribute, want_name());
      push(*a, std::move(n));
      return a;
    }
    if (!is_op(",")) return n;
    NodePtr all = make_of(NodeKind::tuple, "", std::move(n));
    while (skip_op(",") && now().kind == TokenKind::name && !is_name("in")) push(*all, make(NodeKind::name, want_name()));
    return all;
  }

  NodePtr for_block() {
    NodePtr n = make(NodeKind::for_block);
    bool paren = skip_op("(");
    push(*n, target());
    if (paren) want_op(")");
    if (!skip_name("in")) wrong("'in' expected");
    push(*n, tuple(false));
    push(*n, skip_name("if") ? expression() : nullptr);
    n->recursive = skip_name("recursive");
    end_tag();
    ++loops_;
    push(*n, body({"else", "endfor"}));
    --loops_;
    std::string word = take().text;
    end_tag();
    if (word == "else") {
      push(*n, body({"endfor"}));
      take();
      end_tag();
    } else {
      push(*n, nullptr);
    }
    return n;
  }

  NodePtr set() {
    NodePtr where = target();
    if (skip_op("=")) {
      NodePtr n = make_of(NodeKind::set, "", std::move(where), tuple());
      end_tag();
      return n;
    }
    NodePtr n = make_of(NodeKind::set_block, "", std::move(where));
    NodePtr chain = is_op("|") ? filters(make(NodeKind::name), false) : nullptr;
    push(*n, body_to("endset"));
    push(*n, std::move(chain));
    return n;
  }

  void parameters(Node& n) {
    want_op("(");
    while (!is_op(")")) {
      n.names.push_back(want_name());
      push(n, skip_op("=") ? expression() : nullptr);
      if (!is_op(")")) want_op(",");
    }
    take();
  }

  NodePtr macro() {
    NodePtr n = make(NodeKind::macro, want_name());
    parameters(*n);
    int outer = std::exchange(loops_, 0);
    n->body = body_to("endmacro");
    deepen(*n, n->body);
    loops_ = outer;
    return n;
  }

  NodePtr call_block() {
    NodePtr n = make(NodeKind::call_block);
    if (is_op("(")) parameters(*n);
    push(*n, unary(true));
    if (n->children.back()->kind != NodeKind::call) wrong("a call expected");
    n->body = body_to("endcall");
    deepen(*n, n->body);
    return n;
  }

  // Expressions, one after the other joined to a tuple by commas.
  NodePtr tuple(bool with_condition = true) {
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

  NodePtr expression() {
    Deeper deeper(*this);
    NodePtr value = logical_or();
    while (skip_name("if")) {
      NodePtr condition = logical_or();
      NodePtr other = skip_name("else") ? expression() : nullptr;
      value = make_of(NodeKind::condition, "", std::move(condition), std::move(value), std::move(other));
    }
    return value;
  }
  NodePtr logical_or() {
    NodePtr left = logical_and();
    while (skip_name("or")) left = make_of(NodeKind::binary, "or", std::move(left), logical_and());
    return left;
  }
  NodePtr logical_and() {
    NodePtr left = logical_not();
    while (skip_name("and")) left = make_of(NodeKind::binary, "and", std::move(left), logical_not());
    return left;
  }
  NodePtr logical_not() {
    Deeper deeper(*this);
    if (is_name("not")) {
      take();
      return make_of(NodeKind::unary, "not", logical_not());
    }
    return comparison();
  }
  NodePtr comparison() {
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
  NodePtr chain(NodePtr (Parser::*inner)(), std::initializer_list<std::string_view> ops) {
    NodePtr left = (this->*inner)();
    for (;;) {
      auto op = std::find_if(ops.begin(), ops.end(), [&](std::string_view o) { return is_op(o); });
      if (op == ops.end()) return left;
      take();
      NodePtr right = (this->*inner)();
      left = make_of(NodeKind::binary, std::string(*op), std::move(left), std::move(right));
    }
  }
  NodePtr sum() { return chain(&Parser::concat, {"+", "-"}); }
  NodePtr concat() { return chain(&Parser::product, {"~"}); }
  NodePtr product() { return chain(&Parser::power, {"*", "/", "//", "%"}); }
  NodePtr power() { return chain(&Parser::any_unary, {"**"}); }
  NodePtr any_unary() { return unary(true); }

  NodePtr unary(bool with_filters) {
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

  NodePtr primary() {
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
        if (std::from_chars(t.text.data(), end, i).ptr != end) wrong("a number is too large");
        n->value = Value(i);
      } else {
        double d = 0;
        if (std::from_chars(t.text.data(), end, d).ptr != end) wrong("a number is too large");
        n->value = Value(d);
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

  void arguments(Node& n) {
    want_op("(");
    while (!is_op(")")) {
      if (skip_op("*")) {
        n.names.emplace_back("*");
      } else if (skip_op("**")) {
        n.names.emplace_back("**");
      } else if (now().kind == TokenKind::name && at_ + 1 < t_.size() && t_[at_ + 1].kind == TokenKind::op && t_[at_ + 1].text == "=") {
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

  NodePtr postfix(NodePtr n) {
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
        NodePtr call = make_of(NodeKind::call, "", std::move(n));
        arguments(*call);
        n = std::move(call);
      } else {
        return n;
      }
    }
  }

  NodePtr subscript(NodePtr n) {
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

  // Filters, tests and calls behind a value; `first`: the name of a filter comes at once, without '|'.
  NodePtr filters(NodePtr n, bool first) {
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
        } else if (takes_argument() && !is_name("else") && !is_name("or") && !is_name("and") && !is_name("is") && !is_name("if") &&
                   !is_name("in") && !is_name("not") && !is_name("recursive")) {
          t->names.emplace_back();
          push(*t, postfix(primary()));
        }
        n = negated ? make_of(NodeKind::unary, "not", std::move(t)) : std::move(t);
      } else if (is_op("(")) {
        NodePtr call = make_of(NodeKind::call, "", std::move(n));
        arguments(*call);
        n = std::move(call);
      } else {
        return n;
      }
    }
  }
  bool takes_argument() const {
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

  std::vector<Token> t_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

NodePtr parse(std::string_view source) { return Parser(lex(source)).run(); }

}  // namespace ravine::jinja
