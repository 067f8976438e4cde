// Any bytes as a template: a TemplateError or a text, within bounds.
#include "base/text.h"
#include "data/jinja/render.h"

using namespace ravine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view source(reinterpret_cast<const char*>(data), size);
  if (size > 1 << 14 || find_invalid_utf8(source) != std::string_view::npos) return 0;
  static const Json variables = Json::parse(R"({"messages": [{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "Yo", "n": [1, 2.5, null]}],
      "bos_token": "<s>", "add_generation_prompt": true})");
  try {
    jinja::Template(source).render(variables);
  } catch (const jinja::TemplateError&) {
  }
  return 0;
}
