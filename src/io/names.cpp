#include "io/names.h"

#include "base/error.h"

namespace ravine {
namespace {

std::string llama_parameter(std::string_view file) {
  for (std::string_view bare : {"embed_tokens.", "layers.", "norm."})
    if (file.starts_with(bare)) return "model." + std::string(file);
  return std::string(file);
}

std::string same(std::string_view name) { return std::string(name); }

bool rotary_constant(std::string_view file) { return file.ends_with("rotary_emb.inv_freq"); }

}  // namespace

const NameTable& names_of(std::string_view model_type) {
  static const NameTable llama{"LlamaForCausalLM", llama_parameter, same, rotary_constant};
  if (model_type == "llama") return llama;
  fail("names_of: every family has a table of names, got '{}'", model_type);
}

}  // namespace ravine
