#include "engine/make_recipe.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace ravine {

Recipe make_recipe(const PrecisionOptions& options, const Kernels& kernels) {
  Recipe recipe;
  std::vector<std::string> ops;
  kernels.each([&]<class Args>(const Kernel<Args>&) { ops.push_back(Args::name); });
  auto refuse = [](const std::string& op, const std::vector<std::string>& known, const char* key, const char* rule) {
    std::string near = nearest(op, known);
    throw UserError("no op '" + op + "'", key, rule,
                    near.empty() ? fmt::format("there are {}", fmt::join(known, ", ")) : "did you mean '" + near + "'?");
  };
  for (const RecipeOption& o : options.recipes) {
    if (std::none_of(ops.begin(), ops.end(), [&](const std::string& known) { return glob_match(o.op, known); }))
      refuse(o.op, ops, "precision.recipes", "it must be the name of an op, or a pattern of such");
    recipe.add({.path = o.path, .op = o.op, .role = o.role, .arithmetic = o.compute, .rounding = o.round});
  }
  const std::vector<std::string> unfusable(std::begin(kUnfusable), std::end(kUnfusable));
  for (const std::string& op : options.unfused) {
    if (std::find(unfusable.begin(), unfusable.end(), op) == unfusable.end())
      refuse(op, unfusable, "precision.unfused", "it must be the name of an op with an unfused definition");
    recipe.unfuse(op);
  }
  return recipe;
}

}  // namespace ravine
