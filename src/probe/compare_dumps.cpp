#include "probe/compare_dumps.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/counted.h"
#include "base/error.h"
#include "files/safetensors.h"
#include "probe/compare_bounds.h"
#include "probe/hypothesis.h"
#include "probe/producers.h"
#include "probe/whole_run.h"

namespace ravine {
namespace {

// Tensors of a dump's files; the file read last stays open, since neighbours lie together.
class StoredDump {
 public:
  explicit StoredDump(std::string folder) : folder_(std::move(folder)) {}
  std::span<const std::byte> bytes(const DumpRecord& r) {
    if (!reader_ || open_ != r.file) {
      reader_ = std::make_unique<SafetensorsReader>(folder_ + "/" + r.file);
      open_ = r.file;
    }
    const TensorInfo& t = reader_->tensor(r.stored);
    if (t.dtype != r.dtype || t.shape.count() != r.shape.count())
      throw UserError(fmt::format("{} is {} {}", r.stored, name(t.dtype), t.shape.text()), folder_ + "/" + r.file,
                      fmt::format("the dump's log says {} {}", name(r.dtype), r.shape.text()), "dump again");
    return reader_->bytes(t);
  }

 private:
  std::string folder_, open_;
  std::unique_ptr<SafetensorsReader> reader_;
};

constexpr const char* kScalars = "scalars";  // of an update: rate, bias corrections, clipping
// What the host hands to calls.
constexpr const char* kHostMade[] = {"ids", "labels", "positions", "sequences", "table", "rope", "slopes"};

// What of two dumps has no partner, a step or phase at a time where all of it has none.
class Unmatched {
 public:
  void add(const char* side, int rank, const DumpRecord& r) {
    const std::string group = fmt::format("rank {}, step {}, {}", rank, r.step, name(r.phase));
    names_[{side, group}].push_back(fmt::format("{}, micro batch {}, {} {}{}: {} ({})", group, r.micro, r.path, r.op,
                                                r.n > 0 ? fmt::format("[{}]", r.n) : "", r.tensor,
                                                r.output ? "written" : "read"));
  }
  // `paired`: the groups in which something has a partner.
  // uncovered: gets those of the others, which nothing that follows can stand for.
  std::vector<std::string> words(const std::set<std::string>& paired, std::vector<std::string>& uncovered) const {
    std::vector<std::string> out;
    for (const auto& [key, names] : names_) {
      const auto& [side, group] = key;
      if (!paired.contains(group) && !group.ends_with(name(Phase::recompute)))
        out.push_back(uncovered.emplace_back(
            fmt::format("{}: {}, only in {}", group, counted(static_cast<int64_t>(names.size()), "tensor"), side)));
      else
        for (const std::string& one : names) out.push_back(fmt::format("{}, only in {}", one, side));
    }
    return out;
  }
  static std::string group(int rank, const DumpRecord& r) {
    return fmt::format("rank {}, step {}, {}", rank, r.step, name(r.phase));
  }

 private:
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> names_;
};

// One rank's calls, in the order of the run, held against the other dump's.
class RankComparison {
 public:
  RankComparison(const RankDump& a, const RankDump& b, StoredDump& stored_a, StoredDump& stored_b, Comparison& out)
      : a_(a), b_(b), made_a_(a.records), made_b_(b.records), stored_a_(stored_a), stored_b_(stored_b), out_(out) {}

  // Where its culprit stands among all pairs; nothing: it has none.
  struct Found {
    int64_t step;
    size_t at;
    Culprit culprit;
  };
  std::optional<Found> found;
  std::string inherited_from;

  void run(Unmatched& unmatched, std::set<std::string>& paired) {
    std::unordered_map<std::string, const DumpRecord*> others;
    for (const DumpRecord& r : b_.records) others.emplace(r.key(), &r);
    std::unordered_set<std::string> met;
    find_common_calls();
    for (const DumpRecord& r : a_.records) {
      if (!common_.contains(r.call())) continue;
      if (r.op != kStateOp && r.op != kGradientOp) (r.phase == Phase::update ? updates_ : backwards_).insert(r.step);
      if (first_step_ < 0 || r.step < first_step_) first_step_ = r.step;
    }
    std::vector<ComparedPair> call;
    for (const DumpRecord& r : a_.records) {
      const auto other = others.find(r.key());
      if (other == others.end() || !common_.contains(r.call())) {
        unmatched.add("A", a_.rank, r);
        continue;
      }
      met.insert(other->first);
      paired.insert(Unmatched::group(a_.rank, r));
      if (!call.empty() && call.back().a.call() != r.call()) judge(call);
      call.push_back(compare(r, *other->second));
      origins_.push_back({&r, other->second});
    }
    judge(call);
    for (const DumpRecord& r : b_.records)
      if (!met.contains(r.key())) unmatched.add("B", b_.rank, r);
    if (!found) judge_ends();
  }

 private:
  struct Records {
    const DumpRecord *a, *b;
  };
  // Calls that both dumps have and that read the same tensors. One that reads others (a norm that adds the branch and one
  // that does not) computes another thing under the same name.
  void find_common_calls() {
    std::unordered_map<std::string, std::set<std::string>> tensors_a, tensors_b;
    for (const auto& [records, tensors] : {std::pair{&a_.records, &tensors_a}, {&b_.records, &tensors_b}})
      for (const DumpRecord& r : *records) {
        std::set<std::string>& read = (*tensors)[r.call()];
        if (!r.output) read.insert(r.tensor);
      }
    for (const auto& [call, tensors] : tensors_a) {
      const auto b = tensors_b.find(call);
      if (b != tensors_b.end() && b->second == tensors) common_.insert(call);
    }
  }

  ComparedPair compare(const DumpRecord& a, const DumpRecord& b) {
    ComparedPair p{.rank = a_.rank, .a = a, .b = b};
    if (!(a.shape == b.shape)) {
      p.by = ComparedBy::nothing;
      p.error = std::numeric_limits<double>::infinity();
    } else if (a.dtype == b.dtype && a.figures.same_bits(b.figures)) {
      p.by = ComparedBy::bits;
    } else if (!a.file.empty() && !b.file.empty()) {
      p.by = ComparedBy::tensors;
      p.exact = errors_between(a.dtype, stored_a_.bytes(a), b.dtype, stored_b_.bytes(b));
      p.error = p.exact->relative;
    } else if (a.figures.has_statistics && b.figures.has_statistics) {
      p.by = ComparedBy::statistics;
      p.error = least_error(a.figures, b.figures);
    } else {
      p.by = ComparedBy::checksums;
      p.error = std::numeric_limits<double>::infinity();
    }
    return p;
  }

  // Bounds of what the call writes, and whether it made a difference; empties it.
  void judge(std::vector<ComparedPair>& call) {
    if (call.empty()) return;
    const DumpRecord& r = call.front().a;
    const bool state = r.op == kStateOp, gradient = r.op == kGradientOp;
    const bool reads = std::any_of(call.begin(), call.end(), [](const ComparedPair& p) { return !p.a.output; });
    for (ComparedPair& p : call) {
      if (state) {
        p.judged = is_given(p.a) || out_.layouts_differ || !updates_.contains(p.a.step);
        if (is_given(p.a) && p.by != ComparedBy::bits) p.error = std::max(p.error, std::numeric_limits<double>::min());
        p.own = is_given(p.a) ? 0 : kUnknownCall * rounding_of(p.a.dtype);
        p.inherited = is_given(p.a) ? 0 : kInherited * largest_;
      } else if (gradient) {
        p.judged = out_.layouts_differ || !backwards_.contains(p.a.step);
        p.own = kUnknownCall * rounding_of(p.a.dtype), p.inherited = kInherited * largest_;
      } else if (!p.a.output) {
        judge_input(p, origins_[static_cast<size_t>(&p - call.data())]);
      } else {
        p.judged = true;
        const ErrorBound bounds = bounds_of(call, p);
        p.own = bounds.own;
        p.inherited = reads ? bounds.inherited : kInherited * largest_;
      }
    }
    for (ComparedPair& p : call) note(p);
    for (ComparedPair& p : call) out_.pairs.push_back(std::move(p));
    call.clear();
    origins_.clear();
  }

  // What a call reads is judged where no call of both has made it. Made by the host or by the run's beginning (ids, tables,
  // rates, parameters of the first step): it has to be the same bits. Made by a call that the other dump lacks: held against the
  // roundings of a call that nobody knows.
  void judge_input(ComparedPair& p, const Records& of) {
    if (p.by == ComparedBy::bits) return;
    const DumpRecord *by_a = made_a_.of(*of.a), *by_b = made_b_.of(*of.b);
    const bool alone_a = by_a && !common_.contains(by_a->call()), alone_b = by_b && !common_.contains(by_b->call());
    if (alone_a || alone_b) {
      p.judged = true;
      p.own = kUnknownCall * std::max(rounding_of(p.a.dtype), rounding_of(p.b.dtype)), p.inherited = kInherited * largest_;
      p.made_by = *(alone_b ? by_b : by_a);
      p.made_in_b = alone_b;
      return;
    }
    if (by_a || by_b) return;
    const bool of_weights = !p.a.parameters.empty() && p.a.step == first_step_ && p.a.phase != Phase::update;
    const bool whole_numbers = !is_float(p.a.dtype) && (largest_ == 0 || is_host_made(p.a.tensor));
    if (p.a.tensor == kScalars) return judge_scalars(p);
    if (of_weights || whole_numbers || is_host_made(p.a.tensor)) {
      p.judged = true;
      p.own = p.a.dtype == p.b.dtype ? 0 : std::max(rounding_of(p.a.dtype), rounding_of(p.b.dtype));
      p.error = std::max(p.error, std::numeric_limits<double>::min());
    } else if (p.error > 0 && largest_ == 0 && is_float(p.a.dtype) && inherited_from.empty() && p.a.parameters.empty() &&
               p.error > kUnknownCall * rounding_of(p.a.dtype)) {
      inherited_from =
          fmt::format("'{}' that {} at {} reads in step {} ({})", p.a.tensor, p.a.op, p.a.path, p.a.step, name(p.a.phase));
    }
  }

  // Of an update (optim/rules): the rate, 1 - beta^t of both moments, and the factor on gradients, which alone follows from
  // what the step has computed: clip_norm over the norm.
  void judge_scalars(ComparedPair& p) {
    static constexpr const char* kNames[] = {"lr", "beta1", "beta2", "clip"};
    const std::vector<double>&a = p.a.values, &b = p.b.values;
    if (a.size() != b.size()) return;
    for (size_t i = 0; i < a.size() && i < std::size(kNames); ++i) {
      const double error = std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), std::numeric_limits<double>::min());
      const bool norm = i == 3;
      const double own = norm ? 4 * rounding_of(DType::f32) : 4 * rounding_of(DType::f64),
                   inherited = norm ? kInherited * largest_ : 0;
      if (error <= own + inherited || (p.judged && error - inherited <= p.error - p.inherited)) continue;
      p.judged = true, p.error = error, p.own = own, p.inherited = inherited;
      p.a.tensor = p.b.tensor = fmt::format("{}.{}", kScalars, kNames[i]);
      p.note = fmt::format("{} is {:.9g} in A and {:.9g} in B", kNames[i], a[i], b[i]);
    }
  }

  static bool is_host_made(const std::string& tensor) {
    return std::find(std::begin(kHostMade), std::end(kHostMade), tensor) != std::end(kHostMade);
  }

  void note(const ComparedPair& p) {
    if (p.by == ComparedBy::bits) ++out_.equal_bits;
    if (p.beyond() && !found) found = Found{p.a.step, out_.pairs.size(), culprit_of(p)};
    if (std::isfinite(p.error))
      largest_ = std::max(largest_, p.error);
    else
      largest_ = std::numeric_limits<double>::infinity();
  }

  Culprit culprit_of(const ComparedPair& p) const {
    const bool is_weight = !p.made_by && ((p.a.op == kStateOp && is_given(p.a)) || (!p.a.output && !p.a.parameters.empty()));
    Culprit c{.step = p.a.step,
              .micro = p.a.micro,
              .phase = std::string(name(p.a.phase)),
              .path = p.a.path,
              .op = p.a.op,
              .tensor = p.a.tensor,
              .hypothesis = hypothesis_of(p),
              .rank = a_.rank};
    const bool loss = p.a.op.find("loss") != std::string::npos || p.a.op == "cross_entropy";
    c.kind = is_weight                             ? CulpritKind::weights
             : !p.a.output && !is_float(p.a.dtype) ? CulpritKind::data
             : p.a.op == kGradientOp               ? CulpritKind::backward
             : p.a.phase == Phase::update          ? CulpritKind::update
             : p.a.phase == Phase::backward        ? CulpritKind::backward
             : loss                                ? CulpritKind::loss
                                                   : CulpritKind::forward;
    if (is_weight && p.a.op != kStateOp) c.path = p.a.parameters.front();
    if (!p.note.empty()) c.hypothesis = p.note;
    if (p.made_by) {
      c.phase = name(p.made_by->phase), c.path = p.made_by->path, c.op = p.made_by->op, c.tensor = p.made_by->tensor;
      c.hypothesis = fmt::format("{} alone has this call, and '{}' that {} at {} reads is not the same behind it",
                                 p.made_in_b ? "B" : "A", p.a.tensor, p.a.op, p.a.path);
    }
    return c;
  }

  // Parameters before the first step: no call of the dump has made them.
  bool is_given(const DumpRecord& r) const { return r.op == kStateOp && r.step == first_step_ && !updates_.contains(r.step); }

  // Losses and norms of steps.
  void judge_ends() {
    for (const auto& [step, a] : a_.steps) {
      const auto b = b_.steps.find(step);
      if (b == b_.steps.end()) continue;
      for (const auto& [what, x, y] :
           {std::tuple{"loss", a.loss, b->second.loss}, {"grad_norm", a.grad_norm, b->second.grad_norm}}) {
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        const double error = std::abs(x - y) / std::max(std::abs(x), std::numeric_limits<double>::min());
        if (error <= kUnknownCall * rounding_of(DType::f32) + kInherited * largest_) continue;
        found = Found{step,
                      out_.pairs.size(),
                      {.step = step,
                       .micro = 1,
                       .phase = "forward",
                       .path = what,
                       .op = "step",
                       .tensor = what,
                       .kind = CulpritKind::loss,
                       .rank = a_.rank}};
        return;
      }
    }
  }

  const RankDump &a_, &b_;
  const Producers made_a_, made_b_;
  StoredDump &stored_a_, &stored_b_;
  Comparison& out_;
  std::unordered_set<std::string> common_;
  std::vector<Records> origins_;           // of the pairs of the call under way
  std::set<int64_t> updates_, backwards_;  // steps of which both have such calls (backward: any but the update)
  int64_t first_step_ = -1;  // of which both have something: what is read there and differs has nothing compared before it
  double largest_ = 0;       // error so far
};

}  // namespace

Comparison compare_dumps(const Dump& a, const Dump& b) {
  Comparison out;
  StoredDump stored_a(a.folder), stored_b(b.folder);
  Unmatched unmatched;
  std::set<std::string> paired;
  std::optional<RankComparison::Found> first;
  auto hold = [&](const RankDump& rank, const RankDump& other) {
    RankComparison c(rank, other, stored_a, stored_b, out);
    c.run(unmatched, paired);
    if (c.found && (!first || c.found->step < first->step)) first = c.found;
    if (out.inherited_from.empty()) out.inherited_from = c.inherited_from;
  };
  out.layouts_differ = !same_layout(a, b);
  if (out.layouts_differ) {
    const WholeRuns whole = whole_runs(a, b);
    hold(whole.a, whole.b);
  } else {
    for (const RankDump& rank : a.ranks)
      if (const RankDump* other = rank_in(b, rank.rank))
        hold(rank, *other);
      else
        out.unmatched.push_back(out.uncovered.emplace_back(fmt::format("rank {}, only in A", rank.rank)));
    for (const RankDump& rank : b.ranks)
      if (!rank_in(a, rank.rank))
        out.unmatched.push_back(out.uncovered.emplace_back(fmt::format("rank {}, only in B", rank.rank)));
  }
  for (std::string& words : unmatched.words(paired, out.uncovered)) out.unmatched.push_back(std::move(words));
  if (out.pairs.empty())
    throw UserError("nothing to compare", fmt::format("{}, {}", a.folder, b.folder),
                    fmt::format("no tensor of one is in the other; {}",
                                out.unmatched.empty() ? "both are empty" : "for example: " + out.unmatched.front()),
                    "dump the same steps, paths and phases of both runs");
  for (const auto& [dump, damaged] : {std::pair{&a, &out.damaged_a}, {&b, &out.damaged_b}})
    for (const RankDump& rank : dump->ranks) *damaged += rank.damaged;
  if (first) out.culprit = std::move(first->culprit), out.inherited_from.clear();
  out.verdict = verdict_of(out);
  return out;
}

}  // namespace ravine
