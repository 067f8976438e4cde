#include "io/convert/mindformers_names.h"

namespace ravine {

std::string our_name(const std::string& name) {
  for (const bool core : {false, true}) {
    const std::string_view prefix = core ? "decoder.layers." : "model.layers.";
    if (const size_t end = layer_end(name, prefix); end != std::string::npos) {
      const std::string suffix =
          core ? renamed(name.substr(end), kCoreLayer, true) : renamed(name.substr(end), kLegacyLayer, true);
      if (!suffix.empty()) return "model.layers." + name.substr(prefix.size(), end - prefix.size()) + suffix;
    }
    std::string top = core ? renamed(name, kCoreTop, true) : renamed(name, kLegacyTop, true);
    if (!top.empty()) return top;
  }
  return "";
}

bool is_mindformers_name(const std::string& name) {
  if (name == "model.tok_embeddings.embedding_weight") return true;
  const std::string ours = our_name(name);
  return !ours.empty() && ours != name &&
         (layer_end(name, "model.layers.") != std::string::npos || layer_end(name, "decoder.layers.") != std::string::npos);
}

}  // namespace ravine
