#include "train/layout.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace ravine {
namespace {

// Why the model cannot be cut over so many tensor ranks; "" if it can. A vocabulary that does not divide is padded.
std::string tensor_fault(const Model& model, int tensor) {
  const ModelFacts& f = model.facts();
  if (f.heads % tensor != 0 || f.kv_heads % tensor != 0)
    return fmt::format("the {} attention heads and {} key/value heads must be multiples of it", f.heads, f.kv_heads);
  for (const Param& p : model.params().params())
    for (const Cut& cut : p.cuts)
      if (p.shape[cut.dim] % tensor != 0 && p.shape[cut.dim] != f.vocabulary)
        return fmt::format("dim {} of '{}', {}, must be a multiple of it", cut.dim, p.name, p.shape[cut.dim]);
  return "";
}

int64_t layers_of(const Model& model) { return static_cast<int64_t>(model.blocks().size()) - 2; }

// Whether heads, micro batches and layers divide so.
bool fits(const Config& c, const Mesh& m, const Model& model) {
  int64_t micros = c.train.global_batch / c.train.micro_batch, parts = m.pipeline * (m.pipeline > 1 ? c.parallel.virtual_stages : 1);
  if (micros % m.data != 0 || (m.pipeline > 1 && parts > layers_of(model)) || !tensor_fault(model, m.tensor).empty()) return false;
  return m.pipeline == 1 || c.parallel.virtual_stages == 1 || micros / m.data % m.pipeline == 0;
}

std::string written(const Mesh& m) {
  return fmt::format("parallel.data={}{}{}", m.data, m.tensor > 1 ? fmt::format(" parallel.tensor={}", m.tensor) : "",
                     m.pipeline > 1 ? fmt::format(" parallel.pipeline={}", m.pipeline) : "");
}

std::vector<Mesh> meshes_of(const Config& c, int ranks, const Model& model) {
  std::vector<Mesh> good;
  for (int p = 1; p <= ranks; ++p)
    for (int t = 1; t <= ranks / p; ++t)
      if (ranks % (p * t) == 0)
        if (Mesh m{p, ranks / p / t, t}; fits(c, m, model)) good.push_back(m);
  return good;
}

// The nearest layouts of so many ranks, else the nearest numbers of ranks.
std::string nearest_layouts(const Config& c, int ranks, const Mesh& asked, const Model& model) {
  auto far = [&](const Mesh& m) {
    double sum = 0;
    for (Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) sum += std::abs(std::log2(static_cast<double>(m.size(axis)) / std::max(1, asked.size(axis))));
    return sum;
  };
  std::vector<Mesh> good = meshes_of(c, ranks, model);
  std::stable_sort(good.begin(), good.end(), [&](const Mesh& a, const Mesh& b) { return far(a) < far(b); });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, good.size()); ++i) text += (i ? ", or " : "use ") + written(good[i]);
  if (!text.empty()) return text;
  for (int n = ranks; n >= 1; --n)
    if (std::vector<Mesh> fewer = meshes_of(c, n, model); !fewer.empty()) return fmt::format("start {} rank{}: {}", n, n > 1 ? "s" : "", written(fewer[0]));
  return "change train.global_batch";
}

}  // namespace

std::string RunLayout::text() const {
  std::string out;
  for (Axis axis : {Axis::data, Axis::tensor, Axis::pipeline})
    if (mesh.size(axis) > 1) out += fmt::format("{}{} {}", out.empty() ? "" : " x ", name(axis), mesh.size(axis));
  return out.empty() ? "alone" : out;
}

RunLayout run_layout(const Config& c, int ranks, const Model& model, std::optional<int64_t> checkpoint_leaves) {
  int64_t layers = layers_of(model), micros = div_exact(c.train.global_batch, c.train.micro_batch);
  int64_t others = c.parallel.pipeline * c.parallel.tensor;
  Mesh asked{static_cast<int>(c.parallel.pipeline), static_cast<int>(c.parallel.data > 0 ? c.parallel.data : std::max<int64_t>(1, ranks / others)),
             static_cast<int>(c.parallel.tensor)};
  auto refuse = [&](const std::string& what, const std::string& where, const std::string& rule) {
    throw UserError(what, where, rule, nearest_layouts(c, ranks, asked, model));
  };
  if (static_cast<int64_t>(asked.data) * others != ranks)
    refuse(fmt::format("{} of {} rank{}", c.parallel.data > 0 ? written(asked) : fmt::format("parallel.tensor={} parallel.pipeline={}", c.parallel.tensor, c.parallel.pipeline), ranks, ranks > 1 ? "s" : ""), "parallel",
           fmt::format("data x tensor x pipeline must be the number of ranks (mpirun -n {})", ranks));
  if (std::string fault = tensor_fault(model, asked.tensor); !fault.empty()) refuse(fmt::format("parallel.tensor={}", asked.tensor), "parallel.tensor", fault);
  if (c.parallel.sequence && asked.tensor > 1 && std::any_of(model.params().params().begin(), model.params().params().end(), [](const Param& p) {
        return p.cuts.empty() && p.shape.rank() == 1 && p.name.ends_with(".bias") && p.name.find("proj") != std::string::npos;
      }))
    throw UserError("parallel.sequence=true", "parallel.sequence", "this model has biases on products that are summed over tensor ranks", "set parallel.sequence=false");
  if (asked.pipeline > 1 && asked.pipeline * c.parallel.virtual_stages > layers)
    refuse(fmt::format("{} stages of {} part{}", asked.pipeline, c.parallel.virtual_stages, c.parallel.virtual_stages > 1 ? "s" : ""), "parallel.pipeline",
           fmt::format("every part needs one of the model's {} layers", layers));
  if (micros % asked.data != 0)
    refuse(fmt::format("{} micro batches over {} data ranks", micros, asked.data), "parallel.data, train.global_batch",
           fmt::format("train.global_batch / train.micro_batch = {} must be a multiple of the data ranks", micros));
  if (asked.pipeline > 1 && c.parallel.virtual_stages > 1 && micros / asked.data % asked.pipeline != 0)
    refuse(fmt::format("{} micro batches per rank on {} stages", micros / asked.data, asked.pipeline), "parallel.virtual",
           "the interleaved schedule takes micro batches in groups of as many as there are stages");

  RunLayout out;
  out.mesh = asked;
  out.micro_batches = micros / asked.data;
  out.round_robin = c.parallel.zero >= 2;
  auto leaves_fit = [&](int64_t v) { return v % asked.data == 0 && micros % v == 0; };
  out.sum_leaves = c.parallel.sum_leaves > 0 ? c.parallel.sum_leaves : asked.data;
  if (c.parallel.sum_leaves == 0 && checkpoint_leaves && *checkpoint_leaves > 0 && leaves_fit(*checkpoint_leaves)) out.sum_leaves = *checkpoint_leaves;
  if (!leaves_fit(out.sum_leaves)) {
    std::vector<int64_t> good;
    for (int64_t v = asked.data; v <= micros; v += asked.data)
      if (leaves_fit(v)) good.push_back(v);
    throw UserError(fmt::format("parallel.sum_leaves is {}", out.sum_leaves), "parallel.sum_leaves",
                    fmt::format("it must be a multiple of the {} data rank{} and divide the {} micro batches of a step", asked.data, asked.data > 1 ? "s" : "", micros),
                    fmt::format("use one of {}", fmt::join(good, ", ")));
  }
  out.leaves = out.sum_leaves / asked.data;
  return out;
}

void check_same(const Group& all, const std::string& what, const std::string& mine) {
  if (all.size() == 1) return;
  std::vector<std::string> texts = gather_texts(all, mine);
  for (size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    std::istringstream a(texts[0]), b(texts[r]);
    std::string left, right;
    do {
      left.clear(), right.clear();
      std::getline(a, left);
      std::getline(b, right);
    } while (left == right && (a || b));
    throw UserError(fmt::format("ranks differ in their {}", what), fmt::format("rank {}", r),
                    fmt::format("it has '{}', rank 0 has '{}'", right, left), "start every rank with the same program, config and data");
  }
}

}  // namespace ravine
