// Renders chat templates in the template language Jinja (jinja.palletsprojects.com, version 3.1), as Transformers does:
// sandboxed, with trim_blocks, lstrip_blocks and loop controls. Templates can access their variables only. Work, memory
// and depth are limited (Budget in value.h); every operation counts the data it reads.
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

  // Parses a template. where: its name in errors. Wrong syntax is a TemplateError with the line.
  explicit Template(std::string_view source, std::string where = "the template");
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // Renders the template with these variables (a JSON object), and returns the text. Errors, also those that the
  // template raises, are TemplateErrors that name the line. Too much work, memory or depth is a TemplateLimit. work: if
  // not null, receives the units of work used. most: their limit. Thread-safe.
  std::string render(const Json& variables, int64_t* work = nullptr, int64_t most = Budget::kWork) const;

 private:
  friend class Beginnings;
  NodePtr root_;
  std::string where_;
};

// Renders a template for the beginnings of a list, fast: the text of Template::render() if one variable, a list, is cut
// to its first n elements, for ascending n.
// The outermost loop of the template over the list runs once, and its state is stored. A text is rendered from the last
// state in which the template has seen nothing that the cut would change (OpenList). A template that reads the end of
// the list before this loop is rendered completely each time. All renderings together may use `most` units of work;
// more is a TemplateLimit.
class Beginnings {
 public:
  static constexpr int64_t kWork = 10 * Budget::kWork;

  Beginnings(const Template& all, const Json& variables, const std::string& list, int64_t most = kWork);
  ~Beginnings();

  // A rendered text in two parts: the first `shared` bytes of lead(), then `rest`.
  struct Text {
    size_t shared = 0;
    std::string rest;
  };
  // Returns the text for the first n elements of the list. From call to call n must not decrease.
  Text first(size_t n);
  const std::string& lead() const;  // the text that results of first() share; later calls only append to it
  int64_t work() const;             // units of work that all renderings have used

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravine::jinja
