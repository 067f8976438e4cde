#include "data/jinja/render.h"

#include <algorithm>
#include <ctime>
#include <deque>

#include "data/jinja/builtins.h"

namespace ravine::jinja {

namespace {

constexpr size_t kLongestOutput = size_t{64} << 20;
constexpr int64_t kLongestRange = 100000;
constexpr int kDeepestCalls = 60;

struct Scope {
  std::vector<std::pair<std::string, Value>> names;
  Scope* outer = nullptr;
  Value* find(std::string_view name) {
    for (auto& [k, v] : names)
      if (k == name) return &v;
    return nullptr;
  }
  void set(const std::string& name, Value v) {
    if (Value* known = find(name))
      *known = std::move(v);
    else
      names.emplace_back(name, std::move(v));
  }
};

enum class Flow { on, break_loop, continue_loop };

// One render. Scopes and namespaces live as long as it does, so values may point to them.
class Render {
 public:
  explicit Render(const Json& variables) : built_(budget_) {
    Scope& globals = scope(nullptr);
    set_globals(globals);
    Scope& given = scope(&globals);
    for (const auto& [k, v] : variables.items()) given.set(k, from_json(v));
    top_ = &scope(&given);
  }

  std::string run(const Node& root) {
    std::string out;
    exec(root, *top_, out);
    return out;
  }

 private:
  struct LoopState {  // of loop.changed
    Value last;
    bool started = false;
  };

  Scope& scope(Scope* outer) {
    budget_.step();
    budget_.bytes(256);
    Scope& s = scopes_.emplace_back();
    s.outer = outer;
    return s;
  }

  void set_globals(Scope& g) {
    g.set("range", Function([](Arguments& a) {
            a.at_most("range", 3);
            auto n = [&](size_t i) {
              if (!a.args[i].is_number() || a.args[i].is_float()) raise("range needs integers");
              return a.args[i].integer();
            };
            if (a.args.empty()) raise("range needs a number");
            int64_t from = a.args.size() > 1 ? n(0) : 0, to = a.args.size() > 1 ? n(1) : n(0), by = a.args.size() > 2 ? n(2) : 1;
            if (by == 0) raise("range() arg 3 must not be zero");
            List l;
            for (int64_t i = from; by > 0 ? i < to : i > to;) {
              if (static_cast<int64_t>(l.size()) >= kLongestRange) raise("range too big, at most {}", kLongestRange);
              a.budget->step();
              a.budget->bytes(sizeof(Value));
              l.emplace_back(i);
              if (__builtin_add_overflow(i, by, &i)) break;
            }
            return Value(std::move(l));
          }));
    g.set("dict", Function([](Arguments& a) {
            Dict d;
            if (!a.args.empty() && a.args[0].is_dict()) d = a.args[0].dict();
            for (auto& [k, v] : a.named) d.emplace_back(Value(k), v);
            return Value(std::move(d));
          }));
    g.set("namespace", Function([this](Arguments& a) {
            Namespace& n = spaces_.emplace_back();
            budget_.bytes(sizeof(Namespace));
            if (!a.args.empty() && a.args[0].is_dict())
              for (const auto& [k, v] : a.args[0].dict()) n.fields.emplace_back(str(k, budget_), v);
            for (auto& [k, v] : a.named) n.fields.emplace_back(k, v);
            return Value(&n);
          }));
    g.set("raise_exception", Function([this](Arguments& a) -> Value { throw TemplateError(str(a.get(0, "message"), budget_)); }));
    g.set("strftime_now", Function([](Arguments& a) {
            Value format = a.get(0, "format");
            if (!format.is_string() || format.string().size() > 256) raise("strftime_now needs a format");
            std::time_t now = std::time(nullptr);
            std::tm local{};
            localtime_r(&now, &local);
            char text[1024];
            size_t n = std::strftime(text, sizeof text, format.string().c_str(), &local);
            return Value(std::string(text, n));
          }));
  }

  void write(std::string& out, std::string_view text) {
    if (out.size() + text.size() > kLongestOutput) raise("the template makes too much text");
    budget_.step(static_cast<int64_t>(text.size() / 64));
    out += text;
  }

  // -------- statements
  Flow exec(const Node& n, Scope& s, std::string& out) {
    budget_.step();
    switch (n.kind) {
      case NodeKind::block:
        for (const auto& c : n.children)
          if (Flow f = exec(*c, s, out); f != Flow::on) return f;
        return Flow::on;
      case NodeKind::output:
        write(out, n.text);
        for (const auto& c : n.children) write(out, str(eval(*c, s), budget_));
        return Flow::on;
      case NodeKind::if_block: {
        size_t i = 0;
        for (; i + 1 < n.children.size(); i += 2)
          if (truth(eval(*n.children[i], s))) return exec(*n.children[i + 1], s, out);
        return i < n.children.size() ? exec(*n.children[i], s, out) : Flow::on;
      }
      case NodeKind::for_block:
        if (n.recursive) raise("line {}: recursive loops are not supported", n.line);
        for_block(n, s, out);
        return Flow::on;
      case NodeKind::set:
        assign(*n.children[0], eval(*n.children[1], s), s);
        return Flow::on;
      case NodeKind::set_block: {
        std::string text;
        exec(*n.children[1], scope(&s), text);
        Value v = built_.made(std::move(text));
        if (n.children[2]) v = filter_chain(*n.children[2], v, s);
        assign(*n.children[0], v, s);
        return Flow::on;
      }
      case NodeKind::filter_block: {
        std::string text;
        exec(*n.children[1], scope(&s), text);
        write(out, str(filter_chain(*n.children[0], built_.made(std::move(text)), s), budget_));
        return Flow::on;
      }
      case NodeKind::macro:
        s.set(n.text, macro(n, s));
        return Flow::on;
      case NodeKind::call_block: {
        Value caller = macro(n, s);
        const Node& call = *n.children.back();
        Arguments a = arguments(call, s);
        a.named.emplace_back("caller", caller);
        write(out, str(invoke(eval(*call.children[0], s), a, n.line), budget_));
        return Flow::on;
      }
      case NodeKind::break_loop:
        return Flow::break_loop;
      case NodeKind::continue_loop:
        return Flow::continue_loop;
      default:
        raise("line {}: an expression where a statement should be", n.line);
    }
  }

  void assign(const Node& target, Value v, Scope& s) {
    if (target.kind == NodeKind::name) {
      s.set(target.text, std::move(v));
    } else if (target.kind == NodeKind::attribute) {
      Value space = eval(*target.children[0], s);
      if (!space.is_namespace()) raise("line {}: cannot assign attribute on non-namespace object", target.line);
      if (Value* known = space.space()->find(target.text))
        *known = std::move(v);
      else
        space.space()->fields.emplace_back(target.text, std::move(v));
    } else {
      List l = items(v, budget_);
      if (l.size() != target.children.size()) raise("line {}: {} values for {} names", target.line, l.size(), target.children.size());
      for (size_t i = 0; i < l.size(); ++i) assign(*target.children[i], l[i], s);
    }
  }

  void for_block(const Node& n, Scope& s, std::string& out) {
    const Node *body = n.children[3].get(), *otherwise = n.children[4].get();
    Value over = eval(*n.children[1], s);
    if (over.is_undefined()) over = List{};
    List all = items(over, budget_);
    if (n.children[2]) {
      List kept;
      for (Value& v : all) {
        Scope& inner = scope(&s);
        assign(*n.children[0], v, inner);
        bool keep = truth(eval(*n.children[2], inner));
        if (keep) kept.push_back(std::move(v));
      }
      all = std::move(kept);
    }
    if (all.empty()) {
      if (otherwise) exec(*otherwise, scope(&s), out);
      return;
    }
    ++loop_depth_;
    LoopState* state = &loops_.emplace_back();
    for (size_t i = 0; i < all.size(); ++i) {
      Scope& inner = scope(&s);
      assign(*n.children[0], all[i], inner);
      inner.set("loop", loop_of(all, i, state));
      Flow f = exec(*body, inner, out);
      if (f == Flow::break_loop) break;
    }
    --loop_depth_;
  }

  Value loop_of(const List& all, size_t i, LoopState* state) {
    auto n = static_cast<int64_t>(all.size()), k = static_cast<int64_t>(i);
    Namespace& l = spaces_.emplace_back();
    budget_.bytes(1024);
    l.fields = {{"index", k + 1},
                {"index0", k},
                {"revindex", n - k},
                {"revindex0", n - k - 1},
                {"first", k == 0},
                {"last", k + 1 == n},
                {"length", n},
                {"depth", loop_depth_},
                {"depth0", loop_depth_ - 1},
                {"previtem", i > 0 ? all[i - 1] : Value(Undefined{"there is no previous item"})},
                {"nextitem", i + 1 < all.size() ? all[i + 1] : Value(Undefined{"there is no next item"})},
                {"cycle", Function([k](Arguments& a) {
                   if (a.args.empty()) raise("no items for cycling given");
                   return a.args[static_cast<size_t>(k) % a.args.size()];
                 })},
                {"changed", Function([state](Arguments& a) {
                   Value now(a.args, true);
                   bool same = state->started && equal(state->last, now);
                   state->started = true;
                   state->last = now;
                   return Value(!same);
                 })}};
    return Value(&l);
  }

  Value macro(const Node& n, Scope& where) {
    const Node* node = &n;
    Scope* outer = &where;
    return Value(Function([this, node, outer](Arguments& a) {
      if (++calls_ > kDeepestCalls) raise("macros call each other too deeply");
      Scope& s = scope(outer);
      for (size_t i = 0; i < node->names.size(); ++i) {
        if (a.has(i, node->names[i]))
          s.set(node->names[i], a.get(i, node->names[i]));
        else
          s.set(node->names[i], node->children[i] && node->kind == NodeKind::macro ? eval(*node->children[i], s) : Value(Undefined{node->names[i]}));
      }
      List more;
      for (size_t i = node->names.size(); i < a.args.size(); ++i) more.push_back(a.args[i]);
      s.set("varargs", Value(std::move(more), true));
      Dict named;
      for (const auto& [k, v] : a.named) {
        if (k == "caller")
          s.set(k, v);
        else if (std::find(node->names.begin(), node->names.end(), k) == node->names.end())
          named.emplace_back(Value(k), v);
      }
      s.set("kwargs", Value(std::move(named)));
      std::string out;
      exec(*node->body, s, out);
      --calls_;
      return built_.made(std::move(out));
    }));
  }

  // -------- expressions
  Arguments arguments(const Node& n, Scope& s) {
    Arguments a;
    a.budget = &budget_;
    for (size_t i = 0; i < n.names.size(); ++i) {
      Value v = eval(*n.children[i + 1], s);
      if (n.names[i].empty()) {
        a.args.push_back(std::move(v));
      } else if (n.names[i] == "*") {
        for (Value& x : items(v, budget_)) a.args.push_back(std::move(x));
      } else if (n.names[i] == "**") {
        if (!v.is_dict()) raise("line {}: ** needs a mapping", n.line);
        for (const auto& [k, x] : v.dict()) a.named.emplace_back(str(k, budget_), x);
      } else {
        a.named.emplace_back(n.names[i], std::move(v));
      }
    }
    return a;
  }

  Value invoke(const Value& f, Arguments& a, int line) {
    if (f.is_undefined()) raise("line {}: '{}' is undefined", line, f.undefined_name());
    if (!f.is_function()) raise("line {}: '{}' object is not callable", line, type_name(f));
    budget_.step();
    return f.function()(a);
  }

  Value filter_chain(const Node& n, const Value& input, Scope& s) {  // down to the name "" stands the input
    if (n.kind == NodeKind::name && n.text.empty()) return input;
    if (n.kind != NodeKind::filter) raise("line {}: a filter expected", n.line);
    return run_filter(n, filter_chain(*n.children[0], input, s), s);
  }

  Value run_filter(const Node& n, Value input, Scope& s) {
    Arguments a = arguments(n, s);
    a.args.insert(a.args.begin(), std::move(input));
    return built_.filter(n.text, a);
  }

  Value eval(const Node& n, Scope& s) {
    budget_.step();
    switch (n.kind) {
      case NodeKind::constant:
        return n.value;
      case NodeKind::name:
        for (Scope* at = &s; at; at = at->outer)
          if (Value* v = at->find(n.text)) return *v;
        return Undefined{n.text};
      case NodeKind::list:
      case NodeKind::tuple: {
        List l;
        for (const auto& c : n.children) l.push_back(eval(*c, s));
        budget_.bytes(l.size() * sizeof(Value));
        return Value(std::move(l), n.kind == NodeKind::tuple);
      }
      case NodeKind::dict: {
        Dict d;
        for (size_t i = 0; i + 1 < n.children.size(); i += 2) {
          Value k = eval(*n.children[i], s), v = eval(*n.children[i + 1], s);
          if (k.is_list() || k.is_dict()) raise("line {}: unhashable type: '{}'", n.line, type_name(k));
          auto known = std::find_if(d.begin(), d.end(), [&](const auto& e) { return equal(e.first, k); });
          if (known != d.end())
            known->second = std::move(v);
          else
            d.emplace_back(std::move(k), std::move(v));
        }
        budget_.bytes(d.size() * 2 * sizeof(Value));
        return d;
      }
      case NodeKind::attribute:
        return built_.attribute(eval(*n.children[0], s), n.text);
      case NodeKind::item: {
        Value of = eval(*n.children[0], s);
        return built_.item(of, eval(*n.children[1], s));
      }
      case NodeKind::slice: {
        Value of = eval(*n.children[0], s), part[3];
        const Value* p[3] = {};
        for (int i = 0; i < 3; ++i)
          if (n.children[static_cast<size_t>(i) + 1]) {
            part[i] = eval(*n.children[static_cast<size_t>(i) + 1], s);
            p[i] = &part[i];
          }
        return built_.slice(of, p[0], p[1], p[2]);
      }
      case NodeKind::call: {
        Value f = eval(*n.children[0], s);
        Arguments a = arguments(n, s);
        return invoke(f, a, n.line);
      }
      case NodeKind::filter:
        return run_filter(n, eval(*n.children[0], s), s);
      case NodeKind::test: {
        Value v = eval(*n.children[0], s);
        Arguments a = arguments(n, s);
        a.args.insert(a.args.begin(), std::move(v));
        return built_.test(n.text, a);
      }
      case NodeKind::unary:
        return unary(n, s);
      case NodeKind::binary: {
        Value left = eval(*n.children[0], s);
        if (n.text == "and") return truth(left) ? eval(*n.children[1], s) : left;
        if (n.text == "or") return truth(left) ? left : eval(*n.children[1], s);
        return built_.binary(n.text, left, eval(*n.children[1], s));
      }
      case NodeKind::compare:
        return compare(n, s);
      case NodeKind::condition:
        if (truth(eval(*n.children[0], s))) return eval(*n.children[1], s);
        return n.children[2] ? eval(*n.children[2], s) : Value(Undefined{"the other value of an if"});
      default:
        raise("line {}: a statement where an expression should be", n.line);
    }
  }

  Value unary(const Node& n, Scope& s) {
    Value v = eval(*n.children[0], s);
    if (n.text == "not") return !truth(v);
    if (!v.is_number()) raise("line {}: bad operand type for unary {}: '{}'", n.line, n.text, type_name(v));
    if (n.text == "+") return v;
    return v.is_float() ? Value(-v.number()) : built_.binary("-", Value(int64_t{0}), v);
  }

  Value compare(const Node& n, Scope& s) {
    Value left = eval(*n.children[0], s);
    for (size_t i = 0; i < n.names.size(); ++i) {
      Value right = eval(*n.children[i + 1], s);
      const std::string& op = n.names[i];
      bool holds = op == "=="       ? equal(left, right)
                   : op == "!="     ? !equal(left, right)
                   : op == "<"      ? less(left, right)
                   : op == ">"      ? less(right, left)
                   : op == "<="     ? !less(right, left)
                   : op == ">="     ? !less(left, right)
                   : op == "in"     ? contains(right, left, budget_)
                                    : !contains(right, left, budget_);
      if (!holds) return false;
      left = std::move(right);
    }
    return true;
  }

  Budget budget_;
  Builtins built_;
  std::deque<Scope> scopes_;
  std::deque<Namespace> spaces_;
  std::deque<LoopState> loops_;
  Scope* top_ = nullptr;
  int64_t loop_depth_ = 0;
  int calls_ = 0;
};

}  // namespace

Template::Template(std::string_view source) : root_(parse(source)) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const Json& variables) const { return Render(variables).run(*root_); }

}  // namespace ravine::jinja
