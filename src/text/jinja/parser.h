// Parses templates to trees (jinja2/parser.py).
#pragma once
#include <string_view>

#include "text/jinja/tree.h"

namespace ravine::jinja {

// Returns the syntax tree of the text of a Jinja template. Wrong syntax, and statements that use other templates
// (include, import, extends), are TemplateErrors with the line.
NodePtr parse(std::string_view source);

}  // namespace ravine::jinja
