#include "train/layout.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/narrow_option.h"
#include "parallel/fit.h"
#include "parallel/flat.h"
#include "parallel/stage.h"

namespace ravine {
namespace {

constexpr int64_t kMostLeavesOfRank = 256;

// Whether heads, micro batches and layers divide so.
bool fits(const Config& c, const Mesh& m, const Model& model) {
  int64_t micros = c.train.global_batch / c.train.micro_batch, parts = m.pipeline * (m.pipeline > 1 ? c.parallel.virtual_stages : 1);
  if (micros % m.data != 0 || (m.pipeline > 1 && parts > layers_of(model)) || !tensor_fault(model, m.tensor).empty()) return false;
  return m.pipeline == 1 || c.parallel.virtual_stages == 1 || micros / m.data % m.pipeline == 0;
}

}  // namespace

std::vector<Mesh> meshes_of(const Config& c, int ranks, const Model& model) {
  std::vector<Mesh> good;
  for (int p = 1; p <= ranks; ++p)
    for (int t = 1; t <= ranks / p; ++t)
      if (ranks % (p * t) == 0)
        if (Mesh m{p, ranks / p / t, t}; fits(c, m, model)) good.push_back(m);
  return good;
}

namespace {

std::string nearest_layouts(const Config& c, int ranks, const Mesh& asked, const Model& model) {
  std::string text = nearest_meshes(ranks, asked, [&](const Mesh& m) { return fits(c, m, model); });
  return text.empty() ? "change train.global_batch" : text;
}

}  // namespace

std::string RunLayout::text() const {
  std::string out;
  for (Axis axis : {Axis::data, Axis::tensor, Axis::pipeline})
    if (mesh.size(axis) > 1) out += fmt::format("{}{} {}", out.empty() ? "" : " x ", name(axis), mesh.size(axis));
  return out.empty() ? "alone" : out;
}

bool takes_turns(const ParallelOptions& parallel) { return parallel.zero >= 2; }

RunLayout run_layout(const Config& c, int ranks, const Model& model, std::optional<int64_t> checkpoint_leaves) {
  int64_t layers = layers_of(model), micros = div_exact(c.train.global_batch, c.train.micro_batch);
  int64_t others = c.parallel.pipeline * c.parallel.tensor;
  Mesh asked{narrow_option<int>(c.parallel.pipeline, "parallel.pipeline"), narrow_option<int>(c.parallel.data > 0 ? c.parallel.data : std::max<int64_t>(1, ranks / others), "parallel.data"),
             narrow_option<int>(c.parallel.tensor, "parallel.tensor")};
  auto refuse = [&](const std::string& what, const std::string& where, const std::string& rule) {
    throw UserError(what, where, rule, nearest_layouts(c, ranks, asked, model));
  };
  if (const int64_t wanted = asked.data * others; ranks == 1 && wanted > 1)
    throw UserError(fmt::format("{} on one rank", spelled(asked)), "parallel", "the ranks are processes that mpirun or srun starts", fmt::format("run it as `mpirun -n {} ravine ..`, or leave parallel.* out", wanted));
  if (static_cast<int64_t>(asked.data) * others != ranks)
    refuse(fmt::format("{} of {} rank{}", c.parallel.data > 0 ? spelled(asked) : fmt::format("parallel.tensor={} parallel.pipeline={}", c.parallel.tensor, c.parallel.pipeline), ranks, ranks > 1 ? "s" : ""), "parallel",
           fmt::format("data x tensor x pipeline must be the number of ranks (mpirun -n {})", ranks));
  if (std::string fault = tensor_fault(model, asked.tensor); !fault.empty()) refuse(fmt::format("parallel.tensor={}", asked.tensor), "parallel.tensor", fault);
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
  out.round_robin = takes_turns(c.parallel);
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
  if (out.leaves > kMostLeavesOfRank)
    throw UserError(fmt::format("parallel.sum_leaves is {}, {} for each of {} data rank{}", out.sum_leaves, out.leaves, asked.data, asked.data > 1 ? "s" : ""), "parallel.sum_leaves",
                    fmt::format("a rank sums at most {} leaves, each of which its plan walks through", kMostLeavesOfRank), "use fewer leaves or more data ranks");
  return out;
}

Communication communication_of(const Config& c, const RunLayout& layout, Model& model, DType compute, int64_t columns, int stage) {
  const Mesh& m = layout.mesh;
  int chunks = m.pipeline > 1 ? narrow_option<int>(c.parallel.virtual_stages, "parallel.virtual") : 1;
  std::vector<BlockRange> parts = split_model(model, m.pipeline * chunks, c.parallel.stage_layers);
  std::vector<int> stages = stages_of_units(model, parts, m.pipeline);
  auto others = [](double n) { return (n - 1) / n; };
  double micros = static_cast<double>(layout.micro_batches), r = m.data, t = m.tensor;
  double wide = compute == DType::f64 ? 8 : 4, narrow = static_cast<double>(size_of(compute));
  Communication out;
  // Gradients, and values after the update or around blocks.
  const FlatPlace place{.tensor_rank = 0, .tensor_size = m.tensor, .data_rank = 0, .data_size = m.data, .divided = c.parallel.zero > 0, .whole_below = c.parallel.zero_threshold};
  // As FlatStore has them: with a tied parameter goes the bucket of its owner, wherever that is.
  struct Held {
    Bucket bucket;
    int uses = 1;           // units of this stage that read it, and add to a gradient of their own
    bool elsewhere = false;  // another stage holds it too
  };
  std::vector<Held> held;
  auto holds = [](const Bucket& b, const Param* p) { return std::any_of(b.spans.begin(), b.spans.end(), [&](const Bucket::Span& s) { return s.param == p; }); };
  std::vector<Unit*> units;
  for (Unit& u : model.params().units())
    if (stages[u.index] == stage) units.push_back(&u);
  for (Bucket& b : flat_buckets(model.params(), units, place)) held.push_back({std::move(b)});
  for (const Param& p : model.params().params()) {
    if (!p.tied) continue;
    const int mine = stages[p.unit->index], owner = stages[p.tied->unit->index];
    if (mine == stage && owner != stage)
      for (Bucket& b : flat_buckets(model.params(), {p.tied->unit}, place))
        if (holds(b, p.tied)) held.push_back({std::move(b), 1, true});
    for (Held& h : held)
      if (owner == stage && holds(h.bucket, p.tied)) (mine == stage ? h.uses += 1 : h.elsewhere = true);
  }
  for (const Held& h : held) {
    const Bucket& b = h.bucket;
    const bool divided = b.part < b.count && c.parallel.zero > 0, copy = b.matrix && narrow < wide;
    const double n = static_cast<double>(b.count) * others(r);
    const bool table = std::any_of(b.spans.begin(), b.spans.end(), [](const Bucket::Span& s) { return s.param->use != Use::matrix; });
    const double value = (copy ? n * narrow : 0) + (!copy || table ? n * wide : 0), grads = b.trainable ? n * wide * h.uses : 0;
    if (m.data > 1) {
      out.data += grads * (c.parallel.zero >= 2 ? micros : 1) * (divided ? 1 : 2);
      if (divided && c.parallel.zero < 3 && b.trainable) out.data += value;
      if (divided && c.parallel.zero == 3) out.data += value * 2 * micros * h.uses;
    }
    if (!b.trainable) continue;
    if (h.elsewhere) out.pipeline += static_cast<double>(b.mine.count) * wide;
    // Under sequence parallelism: gradients of what is not cut.
    if (c.parallel.sequence && m.tensor > 1 && !b.cut) out.tensor += 2 * (t - 1) * static_cast<double>(ceil_div(divided && c.parallel.zero >= 2 ? b.part : b.count, m.tensor)) * wide;
    // Gradients of key/value heads that several tensor ranks hold.
    for (const Bucket::Span& s : b.spans)
      if (int copies = copies_of(*s.param, m.tensor); copies > 1) out.tensor += (copies - 1) * static_cast<double>(s.shape.count()) * wide / (divided ? r : 1);
  }
  double tokens = static_cast<double>(c.train.micro_batch * columns), hidden = static_cast<double>(model.facts().hidden);
  // Stages: the stream ahead, its gradient back, of every part but the ends of the model.
  for (int p = stage; p < static_cast<int>(parts.size()); p += m.pipeline) {
    bool first = p == 0, last = p + 1 == static_cast<int>(parts.size());
    out.pipeline += micros * (!first + !last) * tokens * hidden * wide / (c.parallel.sequence ? t : 1);
    if (m.tensor == 1) continue;
    double layers = static_cast<double>(parts[static_cast<size_t>(p)].end - parts[static_cast<size_t>(p)].begin) - first - last;
    // Attention and MLP: two sums ahead, two back (and two ahead again where the layer is run again), each in two halves; with the sequence
    // cut a sum is one half and a gathering the other.
    double runs = c.train.recompute == "full" ? 6 : 4;
    out.tensor += micros * layers * runs * 2 * others(t) * tokens * hidden * narrow;
    if (c.parallel.sequence && c.train.recompute != "none") out.tensor += micros * layers * 2 * others(t) * tokens * hidden * narrow;  // gathered again for dw
    if (first) out.tensor += micros * 2 * others(t) * tokens * hidden * wide;
    if (last) out.tensor += micros * (2 * others(t) * tokens * hidden * narrow + (t - 1) * tokens * 8);
  }
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
