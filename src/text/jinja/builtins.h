// Filters, tests, methods and operators for templates.
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace ravine::jinja {

// The built-in filters, tests, methods and operators of templates, as in Jinja and Python. A filter or test is run by
// its name on the value a.args[0], with further arguments.
class Builtins {
 public:
  // before_change: called before a loop or a cycler changes its state.
  Builtins(Budget& budget, std::function<void(Namespace*)> before_change)
      : budget_(budget), before_change_(std::move(before_change)) {}
  Value filter(const std::string& name, Arguments& a);  // an unknown name is a TemplateError
  bool test(const std::string& name, Arguments& a);
  bool has_test(std::string_view name) const;
  bool has_filter(std::string_view name) const;

  Value attribute(const Value& of, std::string_view name);  // of.name
  Value item(const Value& of, const Value& key);            // of[key]
  Value slice(const Value& of, const Value* begin, const Value* end, const Value* step);
  Value binary(const std::string& op, const Value& a, const Value& b);
  // Format values in Python's two notations (formats.cpp): `of % values`, and of.format(values).
  Value percent_format(const Value& of, const Value& values);
  Value brace_format(const Value& of, const Arguments& values);
  Value made(std::string s);                        // returns a new string; its bytes are counted in the budget
  Value made_like(const Value& of, std::string s);  // as made(); the string is markup if `of` is markup
  Value made(List l, bool tuple = false);           // returns a new list or tuple; its bytes are counted in the budget

 private:
  Value method(const Value& of, std::string_view name);  // returns the bound method; an undefined value if unknown
  Value text_method(const Value& of, std::string_view name);
  Value text_filter(const std::string& name, Arguments& a, bool& known);
  Value layout_filter(const std::string& name, Arguments& a, bool& known);
  Value number_filter(const std::string& name, Arguments& a, bool& known);
  Value list_filter(const std::string& name, Arguments& a, bool& known);
  // Filters of lists, each named after its filter. v: the list.
  Value joined(const Value& v, Arguments& a);
  Value unique(const Value& v, Arguments& a);
  Value mapped(const Value& v, Arguments& a);
  Value batches(const Value& v, Arguments& a);
  Value slices(const Value& v, Arguments& a);
  Value grouped(Arguments& a);
  List picked(Arguments& a, bool by_attribute, bool keep);
  Value by_path(const Value& of, const Value& path);
  List sorted(const Value& v, bool reverse, bool fold_case, const Value& attribute);
  Value loop_attribute(Namespace* space, std::string_view name);
  Value cycler_attribute(Namespace* space, std::string_view name);
  Budget& budget_;
  std::function<void(Namespace*)> before_change_;
};

}  // namespace ravine::jinja
