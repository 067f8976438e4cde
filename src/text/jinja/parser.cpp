#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/expression_parser.h"

namespace ravine::jinja {

namespace {

// Parses statements.
class Parser : ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  NodePtr run() {
    NodePtr all = body({});
    if (now().kind != TokenKind::end) wrong("unexpected end of a block");
    return all;
  }

 private:
  // Parses statements up to a block whose name is in `ends`; this name is the next token.
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
    if (name == "with") return with_block();
    if (name == "autoescape") {
      const NodePtr on = expression();
      if (on->kind != NodeKind::constant || !on->value.is_bool() || on->value.boolean())
        wrong("unknown block 'autoescape', but for 'autoescape false'");
      NodePtr n = make(NodeKind::with_block);
      n->body = body_to("endautoescape");
      deepen(*n, n->body);
      return n;
    }
    if (name == "block") return named_block();
    if (name == "generation") return body_to("endgeneration");  // marks the text of an assistant, for training
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

  NodePtr with_block() {
    NodePtr n = make(NodeKind::with_block);
    while (now().kind != TokenKind::block_end) {
      if (!n->children.empty()) want_op(",");
      push(*n, target());
      want_op("=");
      push(*n, expression());
    }
    n->body = body_to("endwith");
    deepen(*n, n->body);
    return n;
  }

  // No other template overrides the block, so it is replaced by its text.
  NodePtr named_block() {
    NodePtr n = make(NodeKind::named_block, want_name());
    if (std::find(blocks_.begin(), blocks_.end(), n->text) != blocks_.end())
      wrong(fmt::format("block '{}' is defined twice", shown(n->text)));
    blocks_.push_back(n->text);
    n->scoped = skip_name("scoped");
    if (is_name("required")) wrong("a required block needs a template that extends this one");
    const int outer = std::exchange(loops_, 0);
    end_tag();
    n->body = body({"endblock"});
    take();
    skip_name(n->text);
    end_tag();
    loops_ = outer;
    deepen(*n, n->body);
    return n;
  }

  int loops_ = 0;  // number of loops around the current position
  std::vector<std::string> blocks_;
};

}  // namespace

NodePtr parse(std::string_view source) { return Parser(lex(source)).run(); }

}  // namespace ravine::jinja
