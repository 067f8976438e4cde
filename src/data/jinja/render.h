// Chat templates in the template language Jinja (jinja.palletsprojects.com, version 3.1), as Transformers runs them: sandboxed, with
// trim_blocks, lstrip_blocks and loop controls. Templates reach nothing but what they are given; work and memory are bounded.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "data/jinja/parser.h"

namespace ravine::jinja {

class Template {
 public:
  explicit Template(std::string_view source);  // wrong syntax is a TemplateError
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // The text for these variables (an object). What goes wrong, and what the template raises, is a TemplateError. May be called
  // from several threads.
  std::string render(const Json& variables) const;

 private:
  NodePtr root_;
};

}  // namespace ravine::jinja
