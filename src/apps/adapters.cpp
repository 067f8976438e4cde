#include "apps/adapters.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/cut_text.h"
#include "base/error.h"
#include "base/text.h"
#include "runs/run_paths.h"

namespace ravine {
namespace {

constexpr size_t kMostName = 64;

void check_name(const std::string& name, const std::string& given) {
  const bool plain = !name.empty() && name.size() <= kMostName && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || c == '_' || c == '-' || c == '.');
  });
  if (!plain)
    throw UserError(fmt::format("'{}' is no name for an adapter", escaped(cut_text(name, kMostName))),
                    fmt::format("--adapter {}", escaped(given)),
                    fmt::format("a name has letters, digits, '_', '-' and '.', at most {}", kMostName),
                    "write --adapter NAME=DIR; a folder with '=' in its name must exist");
}

}  // namespace

ResolvedAdapters resolve_model_and_adapters(const std::string& model, const std::vector<std::string>& given) {
  ResolvedAdapters out;
  std::set<std::string> names;
  for (const std::string& text : given) {
    NamedPath one = named_path(text);
    if (one.name.empty() && text.starts_with('=')) check_name("", text);
    if (!one.name.empty()) check_name(one.name, text);
    if (one.name.empty() && given.size() > 1)
      throw UserError("several adapters, one without a name", fmt::format("--adapter {}", escaped(text)),
                      "with several adapters each needs a name, by which prompts select it",
                      fmt::format("write --adapter NAME={}", escaped(text)));
    if (!one.name.empty() && !names.insert(one.name).second)
      throw UserError(fmt::format("two adapters are called '{}'", one.name), fmt::format("--adapter {}", escaped(text)),
                      "prompts select an adapter by its name", "give one of them another name");
    if (one.path.empty())
      throw UserError(fmt::format("the adapter '{}' has no folder", one.name), "--adapter", "it is written NAME=DIR",
                      fmt::format("write --adapter {}=DIR", one.name));
    out.adapters.push_back(std::move(one));
  }
  const ResolvedPaths resolved = resolve_model_and_adapter(model, out.adapters.empty() ? "" : out.adapters[0].path);
  out.model = resolved.model;
  if (out.adapters.empty() && !resolved.adapter.empty()) out.adapters.push_back({});
  if (!out.adapters.empty()) out.adapters[0].path = resolved.adapter;
  for (size_t i = 1; i < out.adapters.size(); ++i) out.adapters[i].path = resolve_adapter(out.adapters[i].path, "--adapter");
  return out;
}

std::string one_adapter(const ResolvedAdapters& resolved, const std::string& command) {
  if (resolved.adapters.size() > 1)
    throw UserError(fmt::format("{} adapters", resolved.adapters.size()), "--adapter",
                    fmt::format("{} runs one model with at most one adapter", command), "give one --adapter");
  return resolved.adapters.empty() ? "" : resolved.adapters[0].path;
}

}  // namespace ravine
