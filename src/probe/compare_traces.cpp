#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "probe/compare_bounds.h"
#include "probe/hypothesis.h"
#include "probe/named_tensors.h"

namespace ravine {
namespace {

constexpr int64_t kAfterLayers = int64_t{1} << 40;

// Returns the position in a pass: hidden states, logits, loss, then gradients, the last one first.
int64_t order_in_pass(const std::string& name, int64_t in_file) {
  if (name.starts_with("hidden.") && name.size() < 16 && name.find_first_not_of("0123456789", 7) == std::string::npos)
    return std::stoll("0" + name.substr(7));
  if (name == "logits") return kAfterLayers;
  if (name == "loss") return kAfterLayers + 1;
  if (name.starts_with("grad")) return 3 * kAfterLayers - in_file;
  return kAfterLayers / 2 + in_file;
}

DumpRecord record_of(const TensorInfo& t, std::vector<std::byte>& bytes) {
  DumpRecord r{.step = 1, .micro = 1, .path = t.name, .op = "trace", .tensor = t.name, .output = true, .dtype = t.dtype};
  if (t.name.starts_with("grad")) r.phase = Phase::backward;
  r.shape = t.shape;
  r.figures = figures_of(view_of(bytes.data(), t.dtype, t.shape), true);
  return r;
}

}  // namespace

Comparison compare_traces(const std::string& a_path, const std::string& b_path) {
  const NamedTensors a(a_path), b(b_path);
  std::vector<std::pair<int64_t, const TensorInfo*>> order;
  for (const TensorInfo& t : a.tensors()) order.emplace_back(order_in_pass(t.name, static_cast<int64_t>(order.size())), &t);
  std::sort(order.begin(), order.end());
  Comparison out;
  double largest = 0;
  for (const auto& [pass_order, t] : order) {
    const TensorInfo* other = b.find(t->name);
    if (!other) {
      out.unmatched.push_back(t->name + ", only in A");
      continue;
    }
    std::vector<std::byte> of_a = a.bytes(*t), of_b = b.bytes(*other);
    ComparedPair p{.a = record_of(*t, of_a), .b = record_of(*other, of_b), .judged = true};
    if (!(t->shape == other->shape)) {
      p.by = ComparedBy::nothing, p.error = std::numeric_limits<double>::infinity();
    } else if (t->dtype == other->dtype && p.a.figures.same_bits(p.b.figures)) {
      ++out.equal_bits;
    } else {
      p.by = ComparedBy::tensors;
      p.exact = errors_between(t->dtype, of_a, other->dtype, of_b);
      p.error = p.exact->relative;
    }
    p.own = kUnknownCall * std::max(rounding_of(t->dtype), rounding_of(other->dtype));
    p.inherited = kInherited * largest;
    if (p.beyond() && out.culprits.empty()) {
      const bool gradient = p.a.phase == Phase::backward;
      out.culprits.push_back({.step = 1,
                              .micro = 1,
                              .phase = std::string(name(p.a.phase)),
                              .path = t->name,
                              .op = "trace",
                              .tensor = t->name,
                              .hypothesis = hypothesis_of(p),
                              .kind = gradient            ? CulpritKind::backward
                                      : t->name == "loss" ? CulpritKind::loss
                                                          : CulpritKind::forward,
                              .error = p.error,
                              .bound = p.own + p.inherited});
    }
    largest = std::max(largest, p.error);
    out.pairs.push_back(std::move(p));
  }
  for (const TensorInfo& t : b.tensors())
    if (!a.find(t.name)) out.unmatched.push_back(t.name + ", only in B");
  if (out.pairs.empty())
    throw UserError("nothing to compare", a_path + ", " + b_path, "tensors are paired by name, and no name is in both",
                    "trace both models with the same input");
  out.verdict = verdict_of(out);
  return out;
}

}  // namespace ravine
