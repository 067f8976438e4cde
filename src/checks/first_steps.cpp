#include "checks/first_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/tensor.h"
#include "io/checkpoint.h"
#include "kernels/error_bounds.h"

namespace ravine {
namespace {

double unit_of_type(const std::string& compute) {
  return compute == "f64" ? 0x1p-53 : compute == "f32" ? 0x1p-24 : compute == "f16" ? 0x1p-11 : 0x1p-8;
}

double median_of_steps(std::vector<double> x) {
  if (x.empty()) return 0;
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

// True for names of vectors: norms and biases, which Megatron lists behind the parameters with weight decay.
bool is_vector_name(const std::string& name) { return name.find("norm") != std::string::npos || name.ends_with(".bias"); }

std::string plain_name(std::string name) {
  for (const char* prefix : {"module.", "g.", "grad."})
    if (name.starts_with(prefix)) name = name.substr(std::string(prefix).size());
  return name;
}

// Returns the module of a parameter: its name without the last part.
std::string module_of(const std::string& name) {
  const size_t at = name.rfind('.');
  return at == std::string::npos ? name : name.substr(0, at);
}

// Sets `squares` of a side from its global norm, if the sum over all parameters tells it.
void tell_squares(LocalNorms& n, const FirstSteps& side) {
  if (!n.told_by.empty() || side.curve.norm.empty() || n.ranks > 1) return;
  const double global = side.curve.norm.begin()->second;
  double sum = 0, of_squares = 0;
  for (const double x : n.values) sum += x, of_squares += x * x;
  const double as_squares = std::abs(sum / (global * global) - 1), as_roots = std::abs(of_squares / (global * global) - 1);
  if (std::min(as_squares, as_roots) > 0.02) return;
  n.squares = as_squares <= as_roots;
  n.told_by = fmt::format("their {} is the square of the global norm {:.6g}", n.squares ? "sum" : "sum of squares", global);
}

std::vector<double> roots_of(const LocalNorms& n) {
  std::vector<double> out = n.values;
  if (n.squares)
    for (double& x : out) x = std::sqrt(x);
  return out;
}

// Returns how far two lists of norms are apart: the mean logarithm of their ratios, each at most 1.
double apart(const std::vector<double>& a, const std::vector<double>& b, const std::vector<size_t>& order) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] > 0 && b[order[i]] > 0) sum += std::min(1.0, std::abs(std::log(a[i] / b[order[i]])));
  return sum;
}

// Swaps the places of two parameters in each layer, in an order of the parameters.
void swap_in_layers(const std::vector<std::string>& names, const char* one, const char* other, std::vector<size_t>& order) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < order.size(); ++i) index[names[order[i]]] = i;
  for (const std::string& name : names)
    if (const size_t at = name.find(one); at != std::string::npos) {
      std::string twin = name;
      twin.replace(at, std::string(one).size(), other);
      if (const auto found = index.find(twin); found != index.end()) std::swap(order[index[name]], order[found->second]);
    }
}

// An order in which a program lists parameters without names. Megatron's groups have norms and biases last. Layers of
// MindFormers declare the second norm first, and w1, w2, w3.
struct ListedOrder {
  std::vector<size_t> order;
  const char* how;
};
std::vector<ListedOrder> listed_orders(const std::vector<std::string>& names, size_t count) {
  std::vector<size_t> own(count);
  for (size_t i = 0; i < count; ++i) own[i] = i;
  std::vector<ListedOrder> out{{own, "by position"}};
  if (names.empty()) return out;
  std::vector<size_t> grouped = own;
  std::stable_partition(grouped.begin(), grouped.end(), [&](size_t i) { return !is_vector_name(names[i]); });
  out.push_back({grouped, "by position, norms and biases last"});
  swap_in_layers(names, "input_layernorm", "post_attention_layernorm", grouped);
  swap_in_layers(names, "up_proj", "down_proj", grouped);
  out.push_back({grouped, "by position, in MindFormers' order"});
  return out;
}

// The parameters of both sides, paired: for each of a's norms the index of b's.
struct Paired {
  std::vector<std::string> names;
  std::vector<double> a, b;  // roots
  std::string how;
  std::string wrong;  // the reason if they cannot be paired
};

Paired pair_named(const LocalNorms& a, const LocalNorms& b) {
  Paired out{.names = {}, .a = {}, .b = {}, .how = "by name", .wrong = ""};
  const std::vector<double> x = roots_of(a), y = roots_of(b);
  std::map<std::string, size_t> of_b;
  for (size_t i = 0; i < b.names.size(); ++i) of_b[plain_name(b.names[i])] = i;
  for (size_t i = 0; i < a.names.size(); ++i)
    if (const auto at = of_b.find(plain_name(a.names[i])); at != of_b.end())
      out.names.push_back(plain_name(a.names[i])), out.a.push_back(x[i]), out.b.push_back(y[at->second]);
  if (out.names.empty()) out.wrong = fmt::format("no name in common: '{}' and '{}'", a.names.front(), b.names.front());
  return out;
}

// Pairs a list without names with the other side, by position: in the other side's order, or with its vectors last.
Paired pair_listed(const LocalNorms& named, const LocalNorms& list, bool list_is_b) {
  Paired out;
  const std::vector<double> x = roots_of(named), y = roots_of(list);
  if (x.size() != y.size()) {
    out.wrong =
        fmt::format("{} norms on one side and {} on the other: joined weights, such as query, key and value, have one norm",
                    x.size(), y.size());
    return out;
  }
  std::vector<size_t> best;
  double least = HUGE_VAL;
  for (const ListedOrder& o : listed_orders(named.names, x.size())) {
    std::vector<size_t> index(o.order.size());  // by parameter: its place in the list
    for (size_t i = 0; i < index.size(); ++i) index[o.order[i]] = i;
    if (const double far = apart(x, y, index); far < least) least = far, best = index, out.how = o.how;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    out.names.push_back(named.names.empty() ? fmt::format("number {}", i + 1) : plain_name(named.names[i]));
    out.a.push_back(list_is_b ? x[i] : y[best[i]]), out.b.push_back(list_is_b ? y[best[i]] : x[i]);
  }
  return out;
}

// The judgement of two sides.
class FirstStepsJudge {
 public:
  FirstStepsJudge(FirstSteps a, FirstSteps b, const std::string& compute) : a_(std::move(a)), b_(std::move(b)) {
    compute_ = !compute.empty() ? compute : a_.curve.compute;
    if (compute.empty() &&
        (compute_.empty() || (!b_.curve.compute.empty() && unit_of_type(b_.curve.compute) > unit_of_type(compute_))))
      compute_ = b_.curve.compute;
    if (compute_.empty()) compute_ = "bf16";
    unit_ = unit_of_type(compute_);
  }

  PhaseVerdict run() {
    const std::optional<bool> first = loss(1), norms = local_norms(), global = global_norm(), weights = weights_after(),
                              second = loss(2);
    rate();
    if (first == false) return forward();
    if (norms == false || (!norms && global == false)) return backward(norms == false);
    if (weights == false || second == false) return optimizer(first, norms, global);
    if (!first) {
      v_.finding = "Step 1 has no loss on both sides, so nothing is told.";
      v_.record.push_back("the loss of step 1 on both sides (log.every=1)");
      return v_;
    }
    if (!norms && !global) {
      v_.finding = "The forward pass of step 1 agrees. Nothing tells of the backward pass.";
      v_.record.push_back(
          "local norms of step 1: log.local_norms='*' here, the guide's patch in Megatron, local_norm: True in MindFormers");
      if (!second && !weights) return v_;
    }
    if (!second && !weights) {
      v_.finding = "Forward and backward pass of step 1 agree. Nothing tells of the update.";
      v_.record.push_back("the loss of step 2, or checkpoints of step 1 (checkpoint.every=1)");
      return v_;
    }
    v_.phase = global == false ? "optimizer" : "none";
    v_.finding = global == false
                     ? "Losses and local norms agree, but the global norms do not: one side measures it of something else, "
                       "and clips by it."
                     : "The first two steps agree: go on with ravine check lr0.";
    return v_;
  }

 private:
  // Returns true if the losses of a step agree, false if not; nothing if a side has none.
  std::optional<bool> loss(int64_t step) {
    const auto a = a_.curve.loss.find(step), b = b_.curve.loss.find(step);
    if (a == a_.curve.loss.end() || b == b_.curve.loss.end()) {
      v_.facts.push_back(fmt::format("loss of step {}: {} has none.", step, a == a_.curve.loss.end() ? a_.name : b_.name));
      return {};
    }
    const double x = a->second, y = b->second;
    if (std::isnan(x) && std::isnan(y)) {
      v_.facts.push_back(fmt::format("loss of step {}: not a number on both sides.", step));
      return {};
    }
    // Behind an update, differences of roundings have grown.
    const double growth = step > 1 ? 4 : 1;
    const double room = growth * std::min({0.005, 0.005 * std::abs(y), 8 * unit_ * std::abs(y)}) + a_.curve.loss_resolution +
                        b_.curve.loss_resolution;
    const bool same = std::abs(x - y) <= room;
    v_.facts.push_back(fmt::format("loss of step {}: {:.9g} and {:.9g}, {:.3g} apart, {} {:.2g} of {}.", step, x, y,
                                   std::abs(x - y), same ? "within" : "beyond", room, compute_));
    return same;
  }

  double tolerance_of_norms(const std::vector<double>& relative) const {
    const bool wide = unit_ < 1e-6;
    return std::clamp(8 * median_of_steps(relative), wide ? 1e-5 : unit_, wide ? 1e-4 : 0.05);
  }

  std::optional<bool> local_norms() {
    if (!a_.norms || !b_.norms) {
      v_.facts.push_back(fmt::format("local norms of step 1: {} has none.", !a_.norms ? a_.name : b_.name));
      return {};
    }
    LocalNorms &a = *a_.norms, &b = *b_.norms;
    tell_squares(a, a_), tell_squares(b, b_);
    tell_by_other(a, b), tell_by_other(b, a);
    for (const auto& [side, n] : {std::pair{&a_, &a}, {&b_, &b}})
      v_.facts.push_back(fmt::format("local norms of {}: {}, {}; {}.", side->name, n->values.size(),
                                     n->squares ? "sums of squares" : "roots",
                                     n->told_by.empty() ? "nothing tells which" : n->told_by));
    const Paired p = !a.names.empty() && !b.names.empty() ? pair_named(a, b)
                     : a.names.empty()                    ? pair_listed(b, a, false)
                                                          : pair_listed(a, b, true);
    if (!p.wrong.empty()) {
      v_.facts.push_back("local norms of step 1: they cannot be paired, " + p.wrong + ".");
      return {};
    }
    std::vector<double> relative, ratios;
    for (size_t i = 0; i < p.a.size(); ++i) {
      const double size = std::max(std::abs(p.a[i]), std::abs(p.b[i]));
      double d = size > 0 ? std::abs(p.a[i] - p.b[i]) / size : 0;
      if (std::isnan(d)) d = std::isnan(p.a[i]) && std::isnan(p.b[i]) ? 0 : HUGE_VAL;
      relative.push_back(d);
      if (p.a[i] > 0 && p.b[i] > 0) ratios.push_back(p.a[i] / p.b[i]);
    }
    const double room = tolerance_of_norms(relative);
    for (size_t i = 0; i < p.a.size(); ++i)
      if (relative[i] > room) v_.weights.push_back({p.names[i], module_of(p.names[i]), p.a[i], p.b[i], relative[i]});
    std::stable_sort(v_.weights.begin(), v_.weights.end(),
                     [](const auto& x, const auto& y) { return x.relative > y.relative; });
    v_.facts.push_back(fmt::format("local norms of step 1: {} paired {}, {} of them beyond {:.2g} of their size.", p.a.size(),
                                   p.how, v_.weights.size(), room));
    if (v_.weights.size() == p.a.size() && ratios.size() > 1) {
      const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
      if (*most <= *least * 1.001)
        v_.facts.push_back(fmt::format(
            "all local norms have one ratio, {:.6g}: a loss scale, or a mean over ranks or micro batches.", *least));
    }
    return v_.weights.empty();
  }

  // Chooses squares or roots by the norms of the other side, which are known.
  static void tell_by_other(LocalNorms& n, const LocalNorms& other) {
    if (!n.told_by.empty() || other.told_by.empty() || n.values.size() != other.values.size()) return;
    std::vector<double> mine = n.values, theirs = roots_of(other);
    std::sort(mine.begin(), mine.end()), std::sort(theirs.begin(), theirs.end());
    // The right form has one ratio for all, also where one side has scaled gradients.
    auto spread = [&](double power) {
      std::vector<double> logs;
      for (size_t i = 0; i < mine.size(); ++i)
        if (mine[i] > 0 && theirs[i] > 0) logs.push_back(power * std::log(mine[i]) - std::log(theirs[i]));
      const double middle = median_of_steps(logs);
      double sum = 0;
      for (const double x : logs) sum += std::min(1.0, std::abs(x - middle));
      return sum;
    };
    n.squares = spread(0.5) < spread(1);
    n.told_by = "so they go with the other side's norms";
  }

  std::optional<bool> global_norm() {
    const auto a = a_.curve.norm.find(1), b = b_.curve.norm.find(1);
    if (a == a_.curve.norm.end() || b == b_.curve.norm.end()) {
      v_.facts.push_back(fmt::format("global norm of step 1: {} has none.", a == a_.curve.norm.end() ? a_.name : b_.name));
      return {};
    }
    const double size = std::max(std::abs(a->second), std::abs(b->second));
    const double room = (unit_ < 1e-6 ? 1e-4 : 0.02) * size + a_.curve.norm_resolution + b_.curve.norm_resolution;
    const bool same = std::abs(a->second - b->second) <= room;
    v_.facts.push_back(fmt::format("global norm of step 1: {:.6g} and {:.6g}, {} {:.2g}.", a->second, b->second,
                                   same ? "within" : "beyond", room));
    return same;
  }

  void rate() {
    const auto a = std::find_if(a_.curve.rate.begin(), a_.curve.rate.end(),
                                [&](const auto& x) { return b_.curve.rate.contains(x.first); });
    if (a == a_.curve.rate.end() || a->first > 2) return;
    const auto b = b_.curve.rate.find(a->first);
    const double size = std::max(std::abs(a->second), std::abs(b->second));
    if (std::abs(a->second - b->second) > (1e-6 + a_.curve.rate_resolution + b_.curve.rate_resolution) * size)
      other_rate_ = fmt::format(" The learning rates of step {} are {:.6g} and {:.6g}.", a->first, a->second, b->second);
  }

  // Returns true if the weights after step 1 agree; nothing if a side has none.
  std::optional<bool> weights_after() {
    std::vector<PhaseVerdict::Weight> worse;
    size_t compared = 0;
    const double room = unit_ < 1e-6 ? 2e-5 : 2e-3;
    auto note = [&](const std::string& name, double a, double b, double relative) {
      ++compared;
      if (!(relative <= room)) worse.push_back({name, module_of(name), a, b, relative});
    };
    if (!a_.checkpoint.empty() && !b_.checkpoint.empty()) {
      const CheckpointReader a(a_.checkpoint, false), b(b_.checkpoint, false);
      for (const std::string& name : a.names())
        if (name.starts_with("weights/") && b.has(name) && b.shape(name) == a.shape(name) && a.dtype(name) == DType::f32 &&
            b.dtype(name) == DType::f32)
          compare_stored(a, b, name, note);
    } else {
      for (const auto& [name, x] : a_.weights)
        if (const auto at = b_.weights.find(name); at != b_.weights.end())
          note(name, x, at->second, std::abs(x - at->second) / std::max({x, at->second, 1e-300}));
    }
    if (compared == 0) {
      v_.facts.emplace_back("weights after step 1: not recorded on both sides.");
      return {};
    }
    v_.facts.push_back(
        fmt::format("weights after step 1: {} of {} parameters beyond {:.2g} of their size.", worse.size(), compared, room));
    std::stable_sort(worse.begin(), worse.end(), [](const auto& x, const auto& y) { return x.relative > y.relative; });
    if (v_.weights.empty()) v_.weights = worse;
    return worse.empty();
  }

  template <class Note>
  static void compare_stored(const CheckpointReader& a, const CheckpointReader& b, const std::string& name, const Note& note) {
    const Shape& shape = a.shape(name);
    std::vector<float> x(static_cast<size_t>(shape.count())), y(x.size());
    a.read(name, view_of(x.data(), DType::f32, shape), shape, {});
    b.read(name, view_of(y.data(), DType::f32, shape), shape, {});
    double difference = 0, of_a = 0, of_b = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double p = x[i], q = y[i];
      difference += (p - q) * (p - q), of_a += p * p, of_b += q * q;
    }
    note(name.substr(8), std::sqrt(of_a), std::sqrt(of_b), std::sqrt(difference / std::max(of_b, 1e-300)));
  }

  PhaseVerdict forward() {
    v_.phase = "forward";
    v_.weights.clear();
    v_.finding =
        "The loss of step 1 differs: weights, data, or an op of the forward pass. Dump step 1 on both sides and hold the dumps together by ravine compare.";
    return v_;
  }

  PhaseVerdict backward(bool by_weights) {
    v_.phase = "backward";
    v_.finding = "The loss of step 1 agrees and the gradients do not: an op of the backward pass, or its type.";
    if (by_weights) {
      std::vector<std::string> modules;
      for (const auto& w : v_.weights)
        if (std::find(modules.begin(), modules.end(), w.module) == modules.end()) modules.push_back(w.module);
      if (modules.size() > 5) modules.resize(5);
      v_.finding += fmt::format(" Look first at {}.", fmt::join(modules, ", "));
    } else {
      v_.record.push_back("local norms of step 1: they name the module");
    }
    return v_;
  }

  PhaseVerdict optimizer(std::optional<bool> first, std::optional<bool> norms, std::optional<bool> global) {
    if (!first || (!norms && !global)) {
      v_.finding =
          "Step 2 differs, and nothing tells of the gradients of step 1: it may be the backward pass or the optimizer.";
      v_.record.push_back("local norms and the global norm of step 1 on both sides");
      return v_;
    }
    v_.phase = "optimizer";
    v_.finding =
        "Loss and gradients of step 1 agree, and what follows the update does not: the optimizer, its settings, or the decayed set." +
        other_rate_ + " Give both the same gradients: ravine replay optimizer --identify.";
    return v_;
  }

  FirstSteps a_, b_;
  std::string compute_, other_rate_;
  double unit_ = 0;
  PhaseVerdict v_;
};

}  // namespace

PhaseVerdict judge_first_steps(FirstSteps a, FirstSteps b, const std::string& compute) {
  return FirstStepsJudge(std::move(a), std::move(b), compute).run();
}

std::string PhaseVerdict::text() const {
  std::string out;
  for (const std::string& f : facts) out += fmt::format("compared {}\n", f);
  for (size_t i = 0; i < std::min<size_t>(weights.size(), 12); ++i)
    out += fmt::format("weight   {}: {:.6g} and {:.6g}, {:.3g} % apart\n", weights[i].name, weights[i].a, weights[i].b,
                       100 * weights[i].relative);
  if (weights.size() > 12) out += fmt::format("         and {} more: --json lists all\n", weights.size() - 12);
  for (const std::string& r : record) out += fmt::format("record   {}\n", r);
  return out + fmt::format("phase    {}\nverdict  {}\n", phase.value_or("cannot be told"), finding);
}

Json PhaseVerdict::json() const {
  Json list = Json::array();
  for (const Weight& w : weights)
    list.push_back({{"name", w.name}, {"module", w.module}, {"a", w.a}, {"b", w.b}, {"relative", w.relative}});
  return {{"phase", phase ? Json(*phase) : Json()},
          {"agrees", agrees()},
          {"weights", list},
          {"facts", facts},
          {"record", record},
          {"verdict", finding}};
}

}  // namespace ravine
