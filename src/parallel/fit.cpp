#include "parallel/fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/narrow_option.h"

namespace ravine {

std::string tensor_fault(const Model& model, int tensor) {
  const ModelFacts& f = model.facts();
  if (f.heads % tensor != 0) return fmt::format("the {} attention heads must be a multiple of it", f.heads);
  if (f.kv_heads % tensor != 0 && tensor % f.kv_heads != 0) return fmt::format("the {} key/value heads must be a multiple of it, or divide it", f.kv_heads);
  for (const Param& p : model.params().params())
    for (const Cut& cut : p.cuts) {
      int parts = cut.most_parts > 0 ? std::min(cut.most_parts, tensor) : tensor;
      if (p.shape[cut.dim] % parts != 0 && p.shape[cut.dim] != f.vocabulary)
        return fmt::format("dim {} of '{}', {}, must be a multiple of it", cut.dim, p.name, p.shape[cut.dim]);
    }
  return "";
}

int64_t layers_of(const Model& model) { return static_cast<int64_t>(model.blocks().size()) - 2; }

std::string spelled(const Mesh& m) {
  return fmt::format("parallel.data={}{}{}", m.data, m.tensor > 1 ? fmt::format(" parallel.tensor={}", m.tensor) : "",
                     m.pipeline > 1 ? fmt::format(" parallel.pipeline={}", m.pipeline) : "");
}

namespace {

// What to set, whatever was set before: a part that was asked for and is given up is named too.
std::string to_set(const Mesh& m, const Mesh& asked) {
  std::string text = fmt::format("parallel.data={}", m.data);
  for (const auto& [axis, key] : {std::pair(Axis::tensor, "tensor"), std::pair(Axis::pipeline, "pipeline")})
    if (m.size(axis) > 1 || asked.size(axis) > 1) text += fmt::format(" parallel.{}={}", key, m.size(axis));
  return text;
}

}  // namespace

std::string nearest_meshes(int ranks, const Mesh& asked, const std::function<bool(const Mesh&)>& fits) {
  auto of = [&](int n) {
    std::vector<Mesh> good;
    for (int p = 1; p <= n; ++p)
      for (int t = 1; t <= n / p; ++t)
        if (n % (p * t) == 0)
          if (Mesh m{p, n / p / t, t}; fits(m)) good.push_back(m);
    return good;
  };
  auto far = [&](const Mesh& m) {
    double sum = 0;
    for (Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) sum += std::abs(std::log2(static_cast<double>(m.size(axis)) / std::max(1, asked.size(axis))));
    return sum;
  };
  std::vector<Mesh> good = of(ranks);
  std::stable_sort(good.begin(), good.end(), [&](const Mesh& a, const Mesh& b) { return far(a) < far(b); });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, good.size()); ++i) text += (i ? ", or " : "use ") + to_set(good[i], asked);
  for (int n = ranks - 1; n >= 1 && text.empty(); --n)
    if (std::vector<Mesh> fewer = of(n); !fewer.empty()) text = fmt::format("start {} rank{}: {}", n, n > 1 ? "s" : "", to_set(fewer[0], asked));
  return text;
}

Mesh running_mesh(const ParallelOptions& o, int ranks, const Model& model) {
  const int64_t others = o.pipeline * o.tensor, layers = layers_of(model);
  auto parts = [&](const Mesh& m) { return m.pipeline > 1 ? m.pipeline * o.virtual_stages : 1; };
  const Mesh asked{narrow_option<int>(o.pipeline, "parallel.pipeline"), narrow_option<int>(o.data > 0 ? o.data : std::max<int64_t>(1, ranks / others), "parallel.data"), narrow_option<int>(o.tensor, "parallel.tensor")};
  auto fits = [&](const Mesh& m) { return (m.pipeline == 1 || parts(m) <= layers) && tensor_fault(model, m.tensor).empty(); };
  auto refuse = [&](const std::string& what, const std::string& where, const std::string& rule) {
    throw UserError(what, where, rule, nearest_meshes(ranks, asked, fits));
  };
  if (const int64_t wanted = asked.data * others; ranks == 1 && wanted > 1)
    throw UserError(fmt::format("{} on one rank", spelled(asked)), "parallel", "the ranks are processes that mpirun or srun starts", fmt::format("run it as `mpirun -n {} ravine ..`, or leave parallel.* out", wanted));
  if (asked.data * others != ranks)
    refuse(fmt::format("{} on {} rank{}", spelled(asked), ranks, ranks > 1 ? "s" : ""), "parallel",
           fmt::format("data x tensor x pipeline must be the number of ranks (mpirun -n {})", ranks));
  if (std::string fault = tensor_fault(model, asked.tensor); !fault.empty()) refuse(fmt::format("parallel.tensor={}", asked.tensor), "parallel.tensor", fault);
  if (asked.pipeline > 1 && parts(asked) > layers)
    refuse(fmt::format("{} stages of {} part{}", asked.pipeline, o.virtual_stages, o.virtual_stages > 1 ? "s" : ""), "parallel.pipeline",
           fmt::format("every part needs one of the model's {} layers", layers));
  return asked;
}

}  // namespace ravine
