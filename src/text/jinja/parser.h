// Templates to trees (jinja2/parser.py).
#pragma once
#include <string_view>

#include "text/jinja/tree.h"

namespace ravine::jinja {

// Wrong syntax, and statements that reach outside the template (include, import, extends), are TemplateErrors with the line.
NodePtr parse(std::string_view source);

}  // namespace ravine::jinja
