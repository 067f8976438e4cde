// One rendering of a template: walks its tree with a set of variables. Statements are in run.cpp, expressions in
// expressions.cpp, global functions in globals.cpp.
#pragma once
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/scopes.h"
#include "text/jinja/tree.h"

namespace ravine::jinja {

class Run {
 public:
  Run(const Node& root, Names variables, int64_t work = Budget::kWork);

  // Calls `what` and returns its result. A TemplateError of it gets the line of the template and the template's name
  // (where) added to its message.
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

  std::string text();
  int64_t work() const { return budget_.worked(); }

  // -------- renderings of beginnings of the list of `reach`

  // Renders the statements before the outermost loop over an open list. Called once, before advance() and rest().
  void begin(Reach& reach);
  // Renders iterations of this loop, as long as their text is the same for every list with at least n elements.
  void advance(size_t n);
  // Returns the text after lead() if the list has n elements. The state of the rendering is then restored.
  std::string rest(size_t n);
  const std::string& lead() const { return lead_; }
  size_t least() const { return reach_->least; }

 private:
  enum class Flow { on, break_loop, continue_loop };
  void set_globals(Scope& globals);
  void mark();
  void undo();

  // -------- statements
  Flow exec(const Node& n, Scope& s, std::string& out);
  Value inner_text(const Node& body, Scope& s);
  void call_block(const Node& n, Scope& s, std::string& out);
  void assign(const Node& target, Value v, Scope& s);
  Value iterable(const Node& n, Scope& s);
  Value elements(const Node& n, Value over, Scope& s);     // elements of `over` that satisfy the condition of loop n
  void repeat(const Node& n, Scope& s, Namespace& space);  // sets Loop::again of a recursive loop
  void for_block(const Node& n, Scope& s, std::string& out, Value over);
  // Renders a loop from its element i on. If the loop has no elements, its else part is rendered.
  void finish_loop(const Node& n, Scope& s, Namespace& space, size_t i, std::string& out);
  Flow iteration(const Node& n, Scope& s, Namespace& space, size_t i, std::string& out);
  Value macro(const Node& n, Scope& where);

  // -------- expressions
  Arguments arguments(const Node& n, Scope& s);
  Value invoke(const Value& f, Arguments& a);
  Value filter_chain(const Node& n, const Value& input, Scope& s);
  Value run_filter(const Node& n, Value input, Scope& s);
  Value eval(const Node& n, Scope& s);
  Value list_of(const Node& n, Scope& s);
  Value dict_of(const Node& n, Scope& s);
  Value slice_of(const Node& n, Scope& s);
  Value call(const Node& n, Scope& s);
  Value test(const Node& n, Scope& s);
  Value binary(const Node& n, Scope& s);
  Value unary(const Node& n, Scope& s);
  Value compare(const Node& n, Scope& s);

  const Node& root_;
  Budget budget_;
  Scopes scopes_;
  Builtins built_;
  Scope* top_ = nullptr;
  int calls_ = 0, line_ = 1;

  // Used for beginnings of a list.
  Reach* reach_ = nullptr;
  std::string lead_;
  size_t statement_ = 0;        // index of the loop in the root
  const Node* main_ = nullptr;  // the loop; null if there is none
  Namespace* loop_ = nullptr;
  // index_: the next element; next_least_: smallest length of the list for which its iteration is final, 0: unknown.
  size_t index_ = 0, next_least_ = 0;
  int calls_mark_ = 0;
};

}  // namespace ravine::jinja
