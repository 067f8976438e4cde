#include "parallel/fit.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/error.h"
#include "base/narrow_option.h"
#include "model/decoder.h"

namespace ravine {
namespace {

// Returns the reason why the model cannot be divided over `tensor` tensor ranks; "" if it can.
std::string tensor_fault(const Model& model, int tensor) {
  const ModelFacts& f = model.facts();
  if (f.heads % tensor != 0) return fmt::format("the {} attention heads must be a multiple of it", f.heads);
  if (f.kv_heads % tensor != 0 && tensor % f.kv_heads != 0)
    return fmt::format("the {} key/value heads must be a multiple of it, or divide it", f.kv_heads);
  for (const Param& p : model.params().params())
    for (const Cut& cut : p.cuts) {
      if (cut.axis != Axis::tensor) continue;
      int parts = cut.most_parts > 0 ? std::min(cut.most_parts, tensor) : tensor;
      if (p.shape[cut.dim] % parts != 0 && p.shape[cut.dim] != f.vocabulary)
        return fmt::format("dim {} of '{}', {}, must be a multiple of it", cut.dim, p.name, p.shape[cut.dim]);
    }
  return "";
}

// Returns the reason why the experts cannot be divided over m.expert ranks; "" if they can.
std::string expert_fault(const Model& model, const Mesh& m, bool running) {
  const DecoderSpec* spec = model.decoder();
  if (!spec || !spec->moe) return "the model has no experts";
  if (running) return "experts are divided over data ranks in training; running divides weights over tensor ranks and stages";
  if (const int64_t experts = spec->moe->routing.experts; experts % m.expert != 0)
    return fmt::format("the {} experts of a layer must be a multiple of it", experts);
  if (m.data % m.expert != 0) return fmt::format("the {} must be a multiple of it", counted(m.data, "data rank"));
  return "";
}

}  // namespace

std::optional<MeshFault> mesh_fault(const Mesh& m, const ParallelOptions& o, const Model& model, int64_t micro_batches) {
  if (std::string rule = tensor_fault(model, m.tensor); !rule.empty())
    return MeshFault{fmt::format("parallel.tensor={}", m.tensor), "parallel.tensor", rule};
  if (m.expert > 1)
    if (std::string rule = expert_fault(model, m, micro_batches == 0); !rule.empty())
      return MeshFault{fmt::format("parallel.expert={}", m.expert), "parallel.expert", rule};
  if (m.pipeline > 1 && m.pipeline * o.virtual_stages > layers_of(model))
    return MeshFault{fmt::format("{} stages of {}", m.pipeline, counted(o.virtual_stages, "part")), "parallel.pipeline",
                     fmt::format("every part needs one of the model's {} layers", layers_of(model))};
  if (micro_batches == 0) return {};
  if (micro_batches % m.data != 0)
    return MeshFault{
        fmt::format("{} micro batches over {} data ranks", micro_batches, m.data), "parallel.data, train.global_batch",
        fmt::format("train.global_batch / train.micro_batch = {} must be a multiple of the data ranks", micro_batches)};
  if (m.pipeline > 1 && o.virtual_stages > 1 && micro_batches / m.data % m.pipeline != 0)
    return MeshFault{fmt::format("{} micro batches per rank on {} stages", micro_batches / m.data, m.pipeline),
                     "parallel.virtual",
                     "the interleaved schedule takes micro batches in groups of as many as there are stages"};
  return {};
}

namespace {

// Returns the number of expert ranks of the options, or the next smaller number that fits.
int expert_ranks_near(const ParallelOptions& o, const Model& model, int data) {
  for (int n = narrow_option<int>(o.expert, "parallel.expert"); n > 1; --n)
    if (expert_fault(model, {.data = data, .expert = n}, false).empty()) return n;
  return 1;
}

}  // namespace

std::vector<Mesh> meshes_of(int ranks, const ParallelOptions& o, const Model& model, int64_t micro_batches) {
  std::vector<Mesh> good;
  for (int p = 1; p <= ranks; ++p)
    for (int t = 1; t <= ranks / p; ++t)
      if (ranks % (p * t) == 0)
        if (Mesh m{.pipeline = p, .data = ranks / p / t, .tensor = t, .expert = expert_ranks_near(o, model, ranks / p / t)};
            !mesh_fault(m, o, model, micro_batches))
          good.push_back(m);
  return good;
}

int64_t layers_of(const Model& model) { return static_cast<int64_t>(model.blocks().size()) - 2; }

std::string spelled(const Mesh& m) {
  return fmt::format("parallel.data={}{}{}{}", m.data, m.tensor > 1 ? fmt::format(" parallel.tensor={}", m.tensor) : "",
                     m.pipeline > 1 ? fmt::format(" parallel.pipeline={}", m.pipeline) : "",
                     m.expert > 1 ? fmt::format(" parallel.expert={}", m.expert) : "");
}

namespace {

// Returns the options to set. An axis that was set and is now 1 is listed, too.
std::string to_set(const Mesh& m, const Mesh& requested) {
  std::string text = fmt::format("parallel.data={}", m.data);
  for (const auto& [axis, key] :
       {std::pair(Axis::tensor, "tensor"), std::pair(Axis::pipeline, "pipeline"), std::pair(Axis::expert, "expert")})
    if (m.size(axis) > 1 || requested.size(axis) > 1) text += fmt::format(" parallel.{}={}", key, m.size(axis));
  return text;
}

}  // namespace

std::string nearest_meshes(int ranks, const Mesh& requested, const std::function<std::vector<Mesh>(int)>& of) {
  auto far = [&](const Mesh& m) {
    double sum = 0;
    for (Axis axis : {Axis::pipeline, Axis::data, Axis::tensor, Axis::expert})
      sum += std::abs(std::log2(static_cast<double>(m.size(axis)) / std::max(1, requested.size(axis))));
    return sum;
  };
  std::vector<Mesh> good = of(ranks);
  std::stable_sort(good.begin(), good.end(), [&](const Mesh& a, const Mesh& b) { return far(a) < far(b); });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, good.size()); ++i) text += (i ? ", or " : "use ") + to_set(good[i], requested);
  for (int n = ranks - 1; n >= 1 && text.empty(); --n)
    if (std::vector<Mesh> fewer = of(n); !fewer.empty())
      text = fmt::format("start {}: {}", counted(n, "rank"), to_set(fewer[0], requested));
  return text;
}

Mesh mesh_of(const ParallelOptions& o, int ranks, const Model& model, int64_t micro_batches) {
  const int64_t others = o.pipeline * o.tensor;
  const Mesh requested{.pipeline = narrow_option<int>(o.pipeline, "parallel.pipeline"),
                       .data = narrow_option<int>(o.data > 0 ? o.data : std::max<int64_t>(1, ranks / others), "parallel.data"),
                       .tensor = narrow_option<int>(o.tensor, "parallel.tensor"),
                       .expert = narrow_option<int>(o.expert, "parallel.expert")};
  const int64_t wanted = requested.data * others;
  if (ranks == 1 && wanted > 1)
    throw UserError(fmt::format("{} on one rank", spelled(requested)), "parallel",
                    "the ranks are processes that mpirun or srun starts",
                    fmt::format("run it as `mpirun -n {} ravine ..`, or leave parallel.* out", wanted));
  std::optional<MeshFault> fault = mesh_fault(requested, o, model, micro_batches);
  if (wanted != ranks)
    fault = {fmt::format(
                 "{} on {}",
                 o.data > 0 ? spelled(requested) : fmt::format("parallel.tensor={} parallel.pipeline={}", o.tensor, o.pipeline),
                 counted(ranks, "rank")),
             "parallel", fmt::format("data x tensor x pipeline must be the number of ranks (mpirun -n {})", ranks)};
  if (!fault) return requested;
  const std::string nearest = nearest_meshes(ranks, requested, [&](int n) { return meshes_of(n, o, model, micro_batches); });
  throw UserError(fault->what, fault->where, fault->rule,
                  nearest.empty() && micro_batches > 0 ? "change train.global_batch" : nearest);
}

}  // namespace ravine
