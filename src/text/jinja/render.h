// Chat templates in the template language Jinja (jinja.palletsprojects.com, version 3.1), as Transformers runs them: sandboxed,
// with trim_blocks, lstrip_blocks and loop controls. Templates reach nothing but what they are given; work, memory and depth
// are bounded (Budget in value.h), and every operation counts what it touches.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/jinja/tree.h"

namespace ravine::jinja {

class Template {
 public:
  static constexpr size_t kLongest = size_t{1} << 20;  // bytes of a template

  // `where` names it in errors. Wrong syntax is a TemplateError with the line.
  explicit Template(std::string_view source, std::string where = "the template");
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // The text for these variables (an object). What goes wrong, and what the template raises, is a TemplateError that names the
  // line; too much work, memory or depth is a TemplateLimit. May be called from several threads. `work`: how many units it
  // took; `most`: it may take.
  std::string render(const Json& variables, int64_t* work = nullptr, int64_t most = Budget::kWork) const;

 private:
  friend class Beginnings;
  NodePtr root_;
  std::string where_;
};

// The texts of the beginnings of a list: what render() gives when one variable is cut to its first n elements, for ascending n.
// The template's outermost loop over the list is run once and remembered where it stands; a text goes on from the last place up
// to which the template has seen nothing that the cut would change (OpenList). A template that looks at the end of the list
// before that loop is rendered anew each time, all together within `most` units of work, else a TemplateLimit.
class Beginnings {
 public:
  static constexpr int64_t kWork = 10 * Budget::kWork;

  Beginnings(const Template& all, const Json& variables, const std::string& list, int64_t most = kWork);
  ~Beginnings();

  // Each text is the first `shared` bytes of lead() and then `rest`. n must not be smaller than the last one.
  struct Text {
    size_t shared = 0;
    std::string rest;
  };
  Text first(size_t n);
  const std::string& lead() const;  // only grows
  int64_t work() const;             // of all so far

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravine::jinja
