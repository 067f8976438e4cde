// One render of a template: statements in run.cpp, expressions in expressions.cpp, functions that every template has in
// globals.cpp.
#pragma once
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/scopes.h"
#include "text/jinja/tree.h"

namespace ravine::jinja {

class Run {
 public:
  Run(const Node& root, Names variables, int64_t work = Budget::kWork);

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

  std::string text();
  int64_t work() const { return budget_.worked(); }

  // -------- beginnings of the list `reach` is of

  // Runs up to the outermost loop over an open list.
  void begin(Reach& reach);
  // Goes through the loop while that would be the same for a list of n.
  void advance(size_t n);
  // The rest of the text for a list of n.
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
  Value elements(const Node& n, Value over, Scope& s);     // those of `over` that the loop's condition lets in
  void repeat(const Node& n, Scope& s, Namespace& space);  // gives a recursive loop its loop.again
  void for_block(const Node& n, Scope& s, std::string& out, Value over);
  // The loop from an element on, with what stands behind else if there was none at all.
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

  // of beginnings
  Reach* reach_ = nullptr;
  std::string lead_;
  size_t statement_ = 0;        // of the root: the loop
  const Node* main_ = nullptr;  // the loop, null if there is none
  Namespace* loop_ = nullptr;
  size_t index_ = 0, next_least_ = 0;  // of the next element; from what length on it is as for all, 0: not known
  int calls_mark_ = 0;
};

}  // namespace ravine::jinja
