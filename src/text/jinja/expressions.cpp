#include "text/jinja/run.h"

namespace ravine::jinja {

Arguments Run::arguments(const Node& n, Scope& s) {
  Arguments a;
  a.budget = &budget_;
  budget_.list(n.names.size() + 1);
  for (size_t i = 0; i < n.names.size(); ++i) {
    Value v = eval(*n.children[i + 1], s);
    if (n.names[i].empty()) {
      a.args.push_back(std::move(v));
    } else if (n.names[i] == "*") {
      const Value all = items(v, budget_);
      budget_.list(all.list().size());
      a.args.insert(a.args.end(), all.list().begin(), all.list().end());
    } else if (n.names[i] == "**") {
      if (!v.is_dict()) raise("** needs a mapping");
      budget_.list(2 * v.dict().size());
      for (const auto& [k, x] : v.dict()) a.named.emplace_back(str(k, budget_), x);
    } else {
      budget_.list(2);
      budget_.bytes(n.names[i].size());
      a.named.emplace_back(n.names[i], std::move(v));
    }
  }
  return a;
}

Value Run::invoke(const Value& f, Arguments& a) {
  if (f.is_undefined()) raise("'{}' is undefined", f.undefined_name());
  if (f.is_namespace() && f.space()->loop && f.space()->loop->again.is_function()) return f.space()->loop->again.function()(a);
  if (!f.is_function()) raise("'{}' object is not callable", type_name(f));
  budget_.work(int64_t{24});
  return f.function()(a);
}

// The name "" at the end of the chain is the input.
Value Run::filter_chain(const Node& n, const Value& input, Scope& s) {
  Budget::Level level(budget_);
  if (n.kind == NodeKind::name && n.text.empty()) return input;
  if (n.kind != NodeKind::filter) raise("a filter expected");
  return run_filter(n, filter_chain(*n.children[0], input, s), s);
}

Value Run::run_filter(const Node& n, Value input, Scope& s) {
  Arguments a = arguments(n, s);
  a.args.insert(a.args.begin(), std::move(input));
  return built_.filter(n.text, a);
}

Value Run::eval(const Node& n, Scope& s) {
  Budget::Level level(budget_);
  budget_.step();
  line_ = n.line;
  switch (n.kind) {
    case NodeKind::constant:
      return n.value;
    case NodeKind::name:
      for (Scope* at = &s; at; at = at->outer) {
        budget_.work(1 + at->names.size() / 2);
        if (Value* v = at->find(n.text)) return *v;
      }
      return Undefined(n.text);
    case NodeKind::list:
    case NodeKind::tuple:
      return list_of(n, s);
    case NodeKind::dict:
      return dict_of(n, s);
    case NodeKind::attribute:
      return built_.attribute(eval(*n.children[0], s), n.text);
    case NodeKind::item: {
      Value of = eval(*n.children[0], s);
      return built_.item(of, eval(*n.children[1], s));
    }
    case NodeKind::slice:
      return slice_of(n, s);
    case NodeKind::call:
      return call(n, s);
    case NodeKind::filter:
      return run_filter(n, eval(*n.children[0], s), s);
    case NodeKind::test:
      return test(n, s);
    case NodeKind::unary:
      return unary(n, s);
    case NodeKind::binary:
      return binary(n, s);
    case NodeKind::compare:
      return compare(n, s);
    case NodeKind::condition:
      if (truth(eval(*n.children[0], s))) return eval(*n.children[1], s);
      return n.children[2] ? eval(*n.children[2], s) : Value(Undefined("the other value of an if"));
    default:
      raise("a statement where an expression should be");
  }
}

Value Run::list_of(const Node& n, Scope& s) {
  List l;
  budget_.list(n.children.size());
  l.reserve(n.children.size());
  for (const auto& c : n.children) l.push_back(eval(*c, s));
  return Value(std::move(l), n.kind == NodeKind::tuple);
}

Value Run::dict_of(const Node& n, Scope& s) {
  Dict d;
  budget_.list(n.children.size());
  d.reserve(n.children.size() / 2);
  for (size_t i = 0; i + 1 < n.children.size(); i += 2) {
    Value k = eval(*n.children[i], s), v = eval(*n.children[i + 1], s);
    if (k.is_list() || k.is_dict()) raise("unhashable type: '{}'", type_name(k));
    if (const Value* known = lookup(d, k, budget_))
      *const_cast<Value*>(known) = std::move(v);
    else
      d.emplace_back(std::move(k), std::move(v));
  }
  return d;
}

Value Run::slice_of(const Node& n, Scope& s) {
  Value of = eval(*n.children[0], s), part[3];
  const Value* p[3] = {};
  for (size_t i = 0; i < 3; ++i)
    if (n.children[i + 1]) {
      part[i] = eval(*n.children[i + 1], s);
      p[i] = &part[i];
    }
  return built_.slice(of, p[0], p[1], p[2]);
}

Value Run::call(const Node& n, Scope& s) {
  Value f = eval(*n.children[0], s);
  Arguments a = arguments(n, s);
  return invoke(f, a);
}

Value Run::test(const Node& n, Scope& s) {
  Value v = eval(*n.children[0], s);
  Arguments a = arguments(n, s);
  a.args.insert(a.args.begin(), std::move(v));
  return built_.test(n.text, a);
}

Value Run::binary(const Node& n, Scope& s) {
  Value left = eval(*n.children[0], s);
  if (n.text == "and") return truth(left) ? eval(*n.children[1], s) : left;
  if (n.text == "or") return truth(left) ? left : eval(*n.children[1], s);
  return built_.binary(n.text, left, eval(*n.children[1], s));
}

Value Run::unary(const Node& n, Scope& s) {
  Value v = eval(*n.children[0], s);
  if (n.text == "not") return !truth(v);
  if (!v.is_number()) raise("bad operand type for unary {}: '{}'", n.text, type_name(v));
  if (n.text == "+") return v;
  return v.is_float() ? Value(-v.number()) : built_.binary("-", Value(int64_t{0}), v);
}

Value Run::compare(const Node& n, Scope& s) {
  Value left = eval(*n.children[0], s);
  for (size_t i = 0; i < n.names.size(); ++i) {
    Value right = eval(*n.children[i + 1], s);
    const std::string& op = n.names[i];
    bool holds = op == "=="   ? equal(left, right, budget_)
                 : op == "!=" ? !equal(left, right, budget_)
                 : op == "<"  ? less(left, right, budget_)
                 : op == ">"  ? less(right, left, budget_)
                 : op == "<=" ? !less(right, left, budget_)
                 : op == ">=" ? !less(left, right, budget_)
                 : op == "in" ? contains(right, left, budget_)
                              : !contains(right, left, budget_);
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace ravine::jinja
