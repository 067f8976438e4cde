#include "text/jinja/run.h"

#include <algorithm>

namespace ravine::jinja {
namespace {

constexpr int kDeepestCalls = 60;

}  // namespace

Run::Run(const Node& root, Names variables, int64_t work)
    : root_(root), budget_(work), scopes_(budget_), built_(budget_, [this](Namespace* n) { scopes_.keep(*n); }) {
  Scope& globals = scopes_.scope(nullptr);
  set_globals(globals);
  Scope& given = scopes_.scope(&globals);
  given.names = std::move(variables);
  top_ = &scopes_.scope(&given);
}

std::string Run::text() {
  std::string out;
  exec(root_, *top_, out);
  return out;
}

void Run::mark() {
  scopes_.mark();
  calls_mark_ = calls_;
}

void Run::undo() {
  scopes_.undo();
  calls_ = calls_mark_;
}

void Run::begin(Reach& reach) {
  reach_ = &reach;
  for (; statement_ < root_.children.size(); ++statement_) {
    const Node& c = *root_.children[statement_];
    if (c.kind != NodeKind::for_block || c.children[2] || c.recursive) {
      exec(c, *top_, lead_);
      continue;
    }
    line_ = c.line;
    Value over = iterable(c, *top_);
    if (over.is_open()) {
      main_ = &c;
      loop_ = &scopes_.loop(std::move(over));
      return;
    }
    for_block(c, *top_, lead_, over);
  }
}

void Run::advance(size_t n) {
  const Loop* loop = loop_ ? &*loop_->loop : nullptr;
  while (loop && index_ < loop->over.open().size() && next_least_ <= n) {
    mark();
    const size_t written = lead_.size(), least = reach_->least;
    Flow f = iteration(*main_, *top_, *loop_, index_, lead_);
    if (f != Flow::break_loop && reach_->least <= n) {
      ++index_;
      next_least_ = 0;
      scopes_.forget();
      continue;
    }
    next_least_ = f == Flow::break_loop ? SIZE_MAX : reach_->least;
    lead_.resize(written);
    reach_->least = least;
    undo();
  }
}

std::string Run::rest(size_t n) {
  mark();
  const Reach before = *reach_;
  reach_->length = n;
  std::string out;
  if (loop_) {
    finish_loop(*main_, *top_, *loop_, index_, out);
    for (size_t i = statement_ + 1; i < root_.children.size(); ++i) exec(*root_.children[i], *top_, out);
  }
  *reach_ = before;
  undo();
  return out;
}

Run::Flow Run::exec(const Node& n, Scope& s, std::string& out) {
  Budget::Level level(budget_);
  budget_.step();
  line_ = n.line;
  switch (n.kind) {
    case NodeKind::block:
      for (const auto& c : n.children)
        if (Flow f = exec(*c, s, out); f != Flow::on) return f;
      return Flow::on;
    case NodeKind::output:
      append(out, n.text, budget_);
      for (const auto& c : n.children) append_str(out, eval(*c, s), budget_);
      return Flow::on;
    case NodeKind::if_block: {
      size_t i = 0;
      for (; i + 1 < n.children.size(); i += 2)
        if (truth(eval(*n.children[i], s))) return exec(*n.children[i + 1], s, out);
      return i < n.children.size() ? exec(*n.children[i], s, out) : Flow::on;
    }
    case NodeKind::for_block:
      for_block(n, s, out, iterable(n, s));
      return Flow::on;
    case NodeKind::with_block: {
      Scope& inner = scopes_.scope(&s);
      for (size_t i = 0; i + 1 < n.children.size(); i += 2) assign(*n.children[i], eval(*n.children[i + 1], s), inner);
      return exec(*n.body, inner, out);
    }
    case NodeKind::named_block:
      return exec(*n.body, scopes_.scope(n.scoped ? &s : top_), out);
    case NodeKind::set:
      assign(*n.children[0], eval(*n.children[1], s), s);
      return Flow::on;
    case NodeKind::set_block: {
      Value v = inner_text(*n.children[1], s);
      if (n.children[2]) v = filter_chain(*n.children[2], v, s);
      assign(*n.children[0], v, s);
      return Flow::on;
    }
    case NodeKind::filter_block:
      append_str(out, filter_chain(*n.children[0], inner_text(*n.children[1], s), s), budget_);
      return Flow::on;
    case NodeKind::macro:
      scopes_.set(s, n.text, macro(n, s));
      return Flow::on;
    case NodeKind::call_block:
      call_block(n, s, out);
      return Flow::on;
    case NodeKind::break_loop:
      return Flow::break_loop;
    case NodeKind::continue_loop:
      return Flow::continue_loop;
    default:
      raise("an expression where a statement should be");
  }
}

Value Run::inner_text(const Node& body, Scope& s) {
  std::string text;
  exec(body, scopes_.scope(&s), text);
  budget_.bytes(Budget::kTextBytes);
  return Value(std::move(text));
}

void Run::call_block(const Node& n, Scope& s, std::string& out) {
  Value caller = macro(n, s);
  const Node& call = *n.children.back();
  Arguments a = arguments(call, s);
  a.named.emplace_back("caller", caller);
  append_str(out, invoke(eval(*call.children[0], s), a), budget_);
}

void Run::assign(const Node& target, Value v, Scope& s) {
  if (target.kind == NodeKind::name) {
    scopes_.set(s, target.text, std::move(v));
  } else if (target.kind == NodeKind::attribute) {
    Value space = eval(*target.children[0], s);
    if (!space.is_namespace() || space.space()->loop || space.space()->cycler)
      raise("cannot assign attribute on non-namespace object");
    scopes_.keep(*space.space());
    scopes_.set(*space.space(), target.text, std::move(v));
  } else {
    const Value all = items(v, budget_);
    const List& l = all.list();
    if (l.size() != target.children.size()) raise("{} values for {} names", l.size(), target.children.size());
    for (size_t i = 0; i < l.size(); ++i) assign(*target.children[i], l[i], s);
  }
}

Value Run::iterable(const Node& n, Scope& s) { return elements(n, eval(*n.children[1], s), s); }

Value Run::elements(const Node& n, Value over, Scope& s) {
  if (over.is_undefined()) return List{};
  over = items(over, budget_);
  if (!n.children[2]) return over;
  List kept;
  for (const Value& v : over.list()) {
    Scope& inner = scopes_.scope(&s);
    assign(*n.children[0], v, inner);
    if (!truth(eval(*n.children[2], inner))) continue;
    budget_.list(1);
    kept.push_back(v);
  }
  return kept;
}

void Run::for_block(const Node& n, Scope& s, std::string& out, Value over) {
  Namespace& space = scopes_.loop(std::move(over));
  if (n.recursive) repeat(n, s, space);
  finish_loop(n, s, space, 0, out);
}

void Run::repeat(const Node& n, Scope& s, Namespace& space) {
  const Node* node = &n;
  Scope* outer = &s;
  const int64_t depth = space.loop->depth + 1;
  space.loop->again = Value(Function([this, node, outer, depth](Arguments& a) {
    Budget::Level level(budget_);
    if (++calls_ > kDeepestCalls) beyond("a recursive loop calls itself too deeply (more than {} calls)", kDeepestCalls);
    Namespace& inner = scopes_.loop(elements(*node, a.get(0, "iterable"), *outer));
    inner.loop->depth = depth;
    repeat(*node, *outer, inner);
    std::string out;
    finish_loop(*node, *outer, inner, 0, out);
    --calls_;
    budget_.bytes(Budget::kTextBytes);
    return Value(std::move(out));
  }));
}

void Run::finish_loop(const Node& n, Scope& s, Namespace& space, size_t i, std::string& out) {
  const Value over = space.loop->over;
  if (i == 0 && !truth(over)) {
    if (n.children[4]) exec(*n.children[4], scopes_.scope(&s), out);
    return;
  }
  const size_t count = over.is_open() ? over.open().size() : over.list().size();
  for (; i < count; ++i)
    if (iteration(n, s, space, i, out) == Flow::break_loop) return;
  length(over, budget_);  // the loop has seen the end of the list
}

Run::Flow Run::iteration(const Node& n, Scope& s, Namespace& space, size_t i, std::string& out) {
  const Value over = space.loop->over, element = over.is_open() ? over.open().at(i) : over.list()[i];
  Scope& inner = scopes_.scope(&s);
  assign(*n.children[0], element, inner);
  scopes_.keep(space);
  space.loop->index = i;
  scopes_.set(inner, "loop", Value(&space));
  return exec(*n.children[3], inner, out);
}

Value Run::macro(const Node& n, Scope& where) {
  const Node* node = &n;
  Scope* outer = &where;
  return Value(Function([this, node, outer](Arguments& a) {
    if (++calls_ > kDeepestCalls) beyond("macros call each other too deeply (more than {} calls)", kDeepestCalls);
    budget_.work((node->names.size() + 1) * (a.named.size() + 1));
    budget_.list(a.args.size() + 4 * a.named.size());
    Scope& s = scopes_.scope(outer);
    for (size_t i = 0; i < node->names.size(); ++i) {
      if (a.has(i, node->names[i]))
        scopes_.set(s, node->names[i], a.get(i, node->names[i]));
      else
        scopes_.set(s, node->names[i],
                    node->children[i] && node->kind == NodeKind::macro ? eval(*node->children[i], s)
                                                                       : Value(Undefined(node->names[i])));
    }
    List more;
    for (size_t i = node->names.size(); i < a.args.size(); ++i) more.push_back(a.args[i]);
    scopes_.set(s, "varargs", Value(std::move(more), true));
    Dict named;
    for (const auto& [k, v] : a.named) {
      if (k == "caller")
        scopes_.set(s, k, v);
      else if (std::find(node->names.begin(), node->names.end(), k) == node->names.end())
        named.emplace_back(Value(k), v);
    }
    scopes_.set(s, "kwargs", Value(std::move(named)));
    std::string out;
    exec(*node->body, s, out);
    --calls_;
    budget_.bytes(Budget::kTextBytes);
    return Value(std::move(out));
  }));
}

}  // namespace ravine::jinja
