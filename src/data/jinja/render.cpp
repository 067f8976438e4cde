#include "data/jinja/render.h"

#include <algorithm>
#include <ctime>
#include <deque>

#include "data/jinja/builtins.h"

namespace ravine::jinja {

namespace walk {

constexpr int64_t kLongestRange = 100000;
constexpr int kDeepestCalls = 60;
constexpr size_t kNameBytes = 2 * sizeof(std::pair<std::string, Value>);  // of a variable in a scope that grows

using Names = std::vector<std::pair<std::string, Value>>;

struct Scope {
  Names names;
  Scope* outer = nullptr;
  size_t number = 0;  // in order of making
  Value* find(std::string_view name) {
    for (auto& [k, v] : names)
      if (k == name) return &v;
    return nullptr;
  }
};

enum class Flow { on, break_loop, continue_loop };

Names values_of(const Json& variables) {
  Names out;
  for (const auto& [k, v] : variables.items()) out.emplace_back(k, from_json(v));
  return out;
}

// One render. Scopes and namespaces live as long as it does, so values may point to them.
class Render {
 public:
  Render(const Node& root, Names variables, int64_t work = Budget::kWork)
      : root_(root), budget_(work), built_(budget_, [this](Namespace* n) { keep(*n); }) {
    Scope& globals = scope(nullptr);
    set_globals(globals);
    Scope& given = scope(&globals);
    given.names = std::move(variables);
    top_ = &scope(&given);
  }

  // `what`, with the line of the template in its errors.
  template <class F>
  auto named(const std::string& where, F&& what) {
    try {
      return what();
    } catch (const TemplateLimit& e) {
      throw TemplateLimit(fmt::format("{}, line {} of {}", e.what(), line_, where));
    } catch (const TemplateError& e) {
      throw TemplateError(fmt::format("{}, line {} of {}", e.what(), line_, where));
    }
  }

  std::string run() {
    std::string out;
    exec(root_, *top_, out);
    return out;
  }

  int64_t work() const { return budget_.worked(); }

  // -------- beginnings of the list `reach` is of

  // Runs up to the outermost loop over an open list.
  void begin(Reach& reach) {
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
        loop_ = &new_loop(std::move(over));
        return;
      }
      for_block(c, *top_, lead_, over);
    }
  }

  const std::string& lead() const { return lead_; }
  size_t least() const { return reach_->least; }

  // Goes through the loop while that would be the same for a list of n.
  void advance(size_t n) {
    const Loop* loop = loop_ ? &*loop_->loop : nullptr;
    while (loop && index_ < loop->over.open().size() && next_least_ <= n) {
      mark();
      const size_t written = lead_.size(), least = reach_->least;
      Flow f = iteration(*main_, *top_, *loop_, index_, lead_);
      if (f != Flow::break_loop && reach_->least <= n) {
        ++index_;
        next_least_ = 0;
        marked_ = false;
        kept_.clear();
        continue;
      }
      next_least_ = f == Flow::break_loop ? SIZE_MAX : reach_->least;
      lead_.resize(written);
      reach_->least = least;
      undo();
    }
  }

  // The rest of the text for a list of n.
  std::string rest(size_t n) {
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

 private:
  Scope& scope(Scope* outer) {
    budget_.work(int64_t{16});
    budget_.bytes(256);
    Scope& s = scopes_.emplace_back();
    s.outer = outer;
    s.number = scopes_.size() - 1;
    return s;
  }

  Namespace& space() {
    budget_.work(int64_t{16});
    budget_.bytes(sizeof(Namespace));
    Namespace& n = spaces_.emplace_back();
    n.number = spaces_.size() - 1;
    return n;
  }

  Namespace& new_loop(Value over) {
    Namespace& n = space();
    n.loop = Loop{std::move(over)};  // its depth counts recursive loops, which there are none of
    return n;
  }

  void set(Scope& s, const std::string& name, Value v) {
    keep(s);
    put(s.names, name, std::move(v));
  }
  void put(Names& names, const std::string& name, Value v) {
    budget_.work(2 + names.size() / 2);
    auto known = std::find_if(names.begin(), names.end(), [&](const auto& e) { return e.first == name; });
    if (known != names.end()) {
      known->second = std::move(v);
      return;
    }
    budget_.bytes(kNameBytes + name.size());
    names.emplace_back(name, std::move(v));
  }

  // What was there at the mark is kept before it changes; undo() brings it back.
  struct Kept {
    Scope* scope = nullptr;
    Namespace* space = nullptr;
    Names names;
    std::optional<Loop> loop;
  };
  void mark() {
    marked_ = true;
    scope_mark_ = scopes_.size(), space_mark_ = spaces_.size(), bytes_mark_ = budget_.bytes_left();
    calls_mark_ = calls_;
  }
  void undo() {
    for (Kept& k : kept_) {
      (k.scope ? k.scope->names : k.space->fields) = std::move(k.names);
      if (k.space) k.space->loop = std::move(k.loop);
    }
    kept_.clear();
    while (scopes_.size() > scope_mark_) scopes_.pop_back();
    while (spaces_.size() > space_mark_) spaces_.pop_back();
    budget_.bytes_left(bytes_mark_);
    calls_ = calls_mark_;
    marked_ = false;
  }
  void keep(Scope& s) {
    if (!marked_ || s.number >= scope_mark_) return;
    budget_.work(kept_.size());
    if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.scope == &s; })) return;
    budget_.list(3 * s.names.size());
    kept_.push_back({&s, nullptr, s.names, {}});
  }
  void keep(Namespace& n) {
    if (!marked_ || n.number >= space_mark_) return;
    budget_.work(kept_.size());
    if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.space == &n; })) return;
    budget_.list(3 * n.fields.size());
    kept_.push_back({nullptr, &n, n.fields, n.loop});
  }

  void set_globals(Scope& globals) {
    auto define = [&](const char* name, Function f) { globals.names.emplace_back(name, Value(std::move(f))); };
    define("range", Function([](Arguments& a) {
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
              if (static_cast<int64_t>(l.size()) >= kLongestRange) beyond("range too big, at most {}", kLongestRange);
              a.budget->list(1);
              l.emplace_back(i);
              if (__builtin_add_overflow(i, by, &i)) break;
            }
            return Value(std::move(l));
          }));
    define("dict", Function([](Arguments& a) {
            Dict d;
            if (!a.args.empty() && a.args[0].is_dict()) {
              a.budget->list(2 * a.args[0].dict().size());
              d = a.args[0].dict();
            }
            a.budget->list(4 * a.named.size());
            for (auto& [k, v] : a.named) d.emplace_back(Value(k), v);
            return Value(std::move(d));
          }));
    define("namespace", Function([this](Arguments& a) {
            Namespace& n = space();
            if (!a.args.empty() && a.args[0].is_dict())
              for (const auto& [k, v] : a.args[0].dict()) put(n.fields, str(k, budget_), v);
            for (auto& [k, v] : a.named) put(n.fields, k, v);
            return Value(&n);
          }));
    define("raise_exception", Function([this](Arguments& a) -> Value { throw TemplateError(str(a.get(0, "message"), budget_)); }));
    define("strftime_now", Function([](Arguments& a) {
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

  // -------- statements
  Flow exec(const Node& n, Scope& s, std::string& out) {
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
        if (n.recursive) raise("recursive loops are not supported");
        for_block(n, s, out, iterable(n, s));
        return Flow::on;
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
        set(s, n.text, macro(n, s));
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

  Value inner_text(const Node& body, Scope& s) {
    std::string text;
    exec(body, scope(&s), text);
    budget_.bytes(Budget::kTextBytes);
    return Value(std::move(text));
  }

  void call_block(const Node& n, Scope& s, std::string& out) {
    Value caller = macro(n, s);
    const Node& call = *n.children.back();
    Arguments a = arguments(call, s);
    a.named.emplace_back("caller", caller);
    append_str(out, invoke(eval(*call.children[0], s), a), budget_);
  }

  void assign(const Node& target, Value v, Scope& s) {
    if (target.kind == NodeKind::name) {
      set(s, target.text, std::move(v));
    } else if (target.kind == NodeKind::attribute) {
      Value space = eval(*target.children[0], s);
      if (!space.is_namespace() || space.space()->loop) raise("cannot assign attribute on non-namespace object");
      keep(*space.space());
      put(space.space()->fields, target.text, std::move(v));
    } else {
      const Value all = items(v, budget_);
      const List& l = all.list();
      if (l.size() != target.children.size()) raise("{} values for {} names", l.size(), target.children.size());
      for (size_t i = 0; i < l.size(); ++i) assign(*target.children[i], l[i], s);
    }
  }

  Value iterable(const Node& n, Scope& s) {
    Value over = eval(*n.children[1], s);
    if (over.is_undefined()) return List{};
    over = items(over, budget_);
    if (!n.children[2]) return over;
    List kept;
    for (const Value& v : over.list()) {
      Scope& inner = scope(&s);
      assign(*n.children[0], v, inner);
      if (!truth(eval(*n.children[2], inner))) continue;
      budget_.list(1);
      kept.push_back(v);
    }
    return kept;
  }

  void for_block(const Node& n, Scope& s, std::string& out, Value over) { finish_loop(n, s, new_loop(std::move(over)), 0, out); }

  // The loop from an element on, with what stands behind else if there was none at all.
  void finish_loop(const Node& n, Scope& s, Namespace& space, size_t i, std::string& out) {
    const Value over = space.loop->over;
    if (i == 0 && !truth(over)) {
      if (n.children[4]) exec(*n.children[4], scope(&s), out);
      return;
    }
    const size_t count = over.is_open() ? over.open().size() : over.list().size();
    for (; i < count; ++i)
      if (iteration(n, s, space, i, out) == Flow::break_loop) return;
    length(over, budget_);  // has seen its end
  }

  Flow iteration(const Node& n, Scope& s, Namespace& space, size_t i, std::string& out) {
    const Value over = space.loop->over, element = over.is_open() ? over.open().at(i) : over.list()[i];
    Scope& inner = scope(&s);
    assign(*n.children[0], element, inner);
    keep(space);
    space.loop->index = i;
    set(inner, "loop", Value(&space));
    return exec(*n.children[3], inner, out);
  }

  Value macro(const Node& n, Scope& where) {
    const Node* node = &n;
    Scope* outer = &where;
    return Value(Function([this, node, outer](Arguments& a) {
      if (++calls_ > kDeepestCalls) beyond("macros call each other too deeply (more than {} calls)", kDeepestCalls);
      budget_.work((node->names.size() + 1) * (a.named.size() + 1));
      budget_.list(a.args.size() + 4 * a.named.size());
      Scope& s = scope(outer);
      for (size_t i = 0; i < node->names.size(); ++i) {
        if (a.has(i, node->names[i]))
          set(s, node->names[i], a.get(i, node->names[i]));
        else
          set(s, node->names[i], node->children[i] && node->kind == NodeKind::macro ? eval(*node->children[i], s) : Value(Undefined(node->names[i])));
      }
      List more;
      for (size_t i = node->names.size(); i < a.args.size(); ++i) more.push_back(a.args[i]);
      set(s, "varargs", Value(std::move(more), true));
      Dict named;
      for (const auto& [k, v] : a.named) {
        if (k == "caller")
          set(s, k, v);
        else if (std::find(node->names.begin(), node->names.end(), k) == node->names.end())
          named.emplace_back(Value(k), v);
      }
      set(s, "kwargs", Value(std::move(named)));
      std::string out;
      exec(*node->body, s, out);
      --calls_;
      budget_.bytes(Budget::kTextBytes);
      return Value(std::move(out));
    }));
  }

  // -------- expressions
  Arguments arguments(const Node& n, Scope& s) {
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

  Value invoke(const Value& f, Arguments& a) {
    if (f.is_undefined()) raise("'{}' is undefined", f.undefined_name());
    if (!f.is_function()) raise("'{}' object is not callable", type_name(f));
    budget_.work(int64_t{24});
    return f.function()(a);
  }

  Value filter_chain(const Node& n, const Value& input, Scope& s) {  // down to the name "" stands the input
    Budget::Level level(budget_);
    if (n.kind == NodeKind::name && n.text.empty()) return input;
    if (n.kind != NodeKind::filter) raise("a filter expected");
    return run_filter(n, filter_chain(*n.children[0], input, s), s);
  }

  Value run_filter(const Node& n, Value input, Scope& s) {
    Arguments a = arguments(n, s);
    a.args.insert(a.args.begin(), std::move(input));
    return built_.filter(n.text, a);
  }

  Value eval(const Node& n, Scope& s) {
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

  Value list_of(const Node& n, Scope& s) {
    List l;
    budget_.list(n.children.size());
    l.reserve(n.children.size());
    for (const auto& c : n.children) l.push_back(eval(*c, s));
    return Value(std::move(l), n.kind == NodeKind::tuple);
  }

  Value dict_of(const Node& n, Scope& s) {
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

  Value slice_of(const Node& n, Scope& s) {
    Value of = eval(*n.children[0], s), part[3];
    const Value* p[3] = {};
    for (size_t i = 0; i < 3; ++i)
      if (n.children[i + 1]) {
        part[i] = eval(*n.children[i + 1], s);
        p[i] = &part[i];
      }
    return built_.slice(of, p[0], p[1], p[2]);
  }

  Value call(const Node& n, Scope& s) {
    Value f = eval(*n.children[0], s);
    Arguments a = arguments(n, s);
    return invoke(f, a);
  }

  Value test(const Node& n, Scope& s) {
    Value v = eval(*n.children[0], s);
    Arguments a = arguments(n, s);
    a.args.insert(a.args.begin(), std::move(v));
    return built_.test(n.text, a);
  }

  Value binary(const Node& n, Scope& s) {
    Value left = eval(*n.children[0], s);
    if (n.text == "and") return truth(left) ? eval(*n.children[1], s) : left;
    if (n.text == "or") return truth(left) ? left : eval(*n.children[1], s);
    return built_.binary(n.text, left, eval(*n.children[1], s));
  }

  Value unary(const Node& n, Scope& s) {
    Value v = eval(*n.children[0], s);
    if (n.text == "not") return !truth(v);
    if (!v.is_number()) raise("bad operand type for unary {}: '{}'", n.text, type_name(v));
    if (n.text == "+") return v;
    return v.is_float() ? Value(-v.number()) : built_.binary("-", Value(int64_t{0}), v);
  }

  Value compare(const Node& n, Scope& s) {
    Value left = eval(*n.children[0], s);
    for (size_t i = 0; i < n.names.size(); ++i) {
      Value right = eval(*n.children[i + 1], s);
      const std::string& op = n.names[i];
      bool holds = op == "=="       ? equal(left, right, budget_)
                   : op == "!="     ? !equal(left, right, budget_)
                   : op == "<"      ? less(left, right, budget_)
                   : op == ">"      ? less(right, left, budget_)
                   : op == "<="     ? !less(right, left, budget_)
                   : op == ">="     ? !less(left, right, budget_)
                   : op == "in"     ? contains(right, left, budget_)
                                    : !contains(right, left, budget_);
      if (!holds) return false;
      left = std::move(right);
    }
    return true;
  }

  const Node& root_;
  Budget budget_;
  Builtins built_;
  std::deque<Scope> scopes_;
  std::deque<Namespace> spaces_;
  Scope* top_ = nullptr;
  int calls_ = 0, line_ = 1;

  // of beginnings
  Reach* reach_ = nullptr;
  std::string lead_;
  size_t statement_ = 0;        // of the root: the loop
  const Node* main_ = nullptr;  // the loop, null if there is none
  Namespace* loop_ = nullptr;
  size_t index_ = 0, next_least_ = 0;  // of the next element; from what length on it is as for all, 0: not known
  bool marked_ = false;
  size_t scope_mark_ = 0, space_mark_ = 0, bytes_mark_ = 0;
  int calls_mark_ = 0;
  std::vector<Kept> kept_;
};

}  // namespace walk
using walk::Names;
using walk::Render;

Template::Template(std::string_view source, std::string where) : where_(std::move(where)) {
  if (source.size() > kLongest) beyond("a template of {} bytes, at most {} are read", source.size(), kLongest);
  root_ = parse(source);
}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const Json& variables, int64_t* work, int64_t most) const {
  Render r(*root_, walk::values_of(variables), most);
  std::string text = r.named(where_, [&] { return r.run(); });
  if (work) *work = r.work();
  return text;
}

class Beginnings::Impl {
 public:
  Impl(const Template& all, const Json& variables, const std::string& list, int64_t most)
      : root_(*all.root_), where_(all.where_), variables_(walk::values_of(variables)), most_(most) {
    auto it = std::find_if(variables_.begin(), variables_.end(), [&](const auto& e) { return e.first == list; });
    require(it != variables_.end() && it->second.is_list(), "beginnings: a list as variable, got another '{}'", list);
    at_ = static_cast<size_t>(it - variables_.begin());
    elements_ = std::make_shared<const List>(it->second.list());
    reach_.length = elements_->size();
    Names open = variables_;
    open[at_].second = Value(std::make_shared<const OpenList>(elements_, 0, &reach_), it->second.depth());
    run_ = std::make_unique<Render>(root_, std::move(open), most_);
    run_->named(where_, [&] { run_->begin(reach_); });
  }

  Text first(size_t n) {
    run_->named(where_, [&] { run_->advance(n); });
    if (run_->least() > n) return anew(n);
    return {run_->lead().size(), run_->named(where_, [&] { return run_->rest(n); })};
  }

  const std::string& lead() const { return run_->lead(); }
  int64_t work() const { return run_->work() + anew_; }

 private:
  Text anew(size_t n) {
    Names cut = variables_;
    cut[at_].second = List(elements_->begin(), elements_->begin() + static_cast<ptrdiff_t>(n));
    Render r(root_, std::move(cut), std::min(Budget::kWork, most_ - anew_));
    Text text{0, r.named(where_, [&] { return r.run(); })};
    anew_ += r.work();
    return text;
  }

  const Node& root_;
  const std::string& where_;
  Names variables_;
  size_t at_ = 0;
  std::shared_ptr<const List> elements_;
  Reach reach_;
  std::unique_ptr<Render> run_;
  int64_t most_, anew_ = 0;
};

Beginnings::Beginnings(const Template& all, const Json& variables, const std::string& list, int64_t most)
    : impl_(std::make_unique<Impl>(all, variables, list, most)) {}
Beginnings::~Beginnings() = default;
Beginnings::Text Beginnings::first(size_t n) { return impl_->first(n); }
const std::string& Beginnings::lead() const { return impl_->lead(); }
int64_t Beginnings::work() const { return impl_->work(); }

}  // namespace ravine::jinja
