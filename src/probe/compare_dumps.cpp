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
  std::vector<std::string> words(const std::set<std::string>& paired) const {
    std::vector<std::string> out;
    for (const auto& [key, names] : names_) {
      const auto& [side, group] = key;
      if (!paired.contains(group))
        out.push_back(fmt::format("{}: {}, only in {}", group, counted(static_cast<int64_t>(names.size()), "tensor"), side));
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
      : a_(a), b_(b), stored_a_(stored_a), stored_b_(stored_b), out_(out) {}

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
    for (const DumpRecord& r : a_.records) {
      if (r.op != kStateOp && r.op != kGradientOp) (r.phase == Phase::update ? updates_ : backwards_).insert(r.step);
      if (first_step_ < 0 || r.step < first_step_) first_step_ = r.step;
    }
    std::vector<ComparedPair> call;
    for (const DumpRecord& r : a_.records) {
      const auto other = others.find(r.key());
      if (other == others.end()) {
        unmatched.add("A", a_.rank, r);
        continue;
      }
      met.insert(other->first);
      paired.insert(Unmatched::group(a_.rank, r));
      if (!call.empty() && call.back().a.call() != r.call()) judge(call);
      call.push_back(compare(r, *other->second));
    }
    judge(call);
    for (const DumpRecord& r : b_.records)
      if (!met.contains(r.key())) unmatched.add("B", b_.rank, r);
    if (!found) judge_ends();
  }

 private:
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
        p.judged = is_given(p.a) || !updates_.contains(p.a.step);
        p.own = is_given(p.a) ? 0 : kUnknownCall * rounding_of(p.a.dtype);
        p.inherited = is_given(p.a) ? 0 : kInherited * largest_;
      } else if (gradient) {
        p.judged = !backwards_.contains(p.a.step);
        p.own = kUnknownCall * rounding_of(p.a.dtype), p.inherited = kInherited * largest_;
      } else if (!p.a.output) {
        judge_input(p);
      } else {
        p.judged = true;
        const CallBounds bounds = bounds_of(call, p);
        p.own = bounds.own;
        p.inherited = reads ? bounds.inherited : kInherited * largest_;
      }
    }
    for (ComparedPair& p : call) note(p);
    for (ComparedPair& p : call) out_.pairs.push_back(std::move(p));
    call.clear();
  }

  // What a call reads is judged where no call has made it: parameters of the first step, and ids.
  void judge_input(ComparedPair& p) {
    p.judged = p.error > 0 && largest_ == 0 &&
               (!is_float(p.a.dtype) || (!p.a.parameters.empty() && p.a.step == first_step_ && p.a.phase == Phase::forward)) &&
               !made_.contains(p.a.figures.positional);
    if (p.error > 0 && !p.judged && largest_ == 0 && is_float(p.a.dtype) && inherited_from.empty() && p.a.parameters.empty() &&
        !made_.contains(p.a.figures.positional) && p.error > kUnknownCall * rounding_of(p.a.dtype))
      inherited_from =
          fmt::format("'{}' that {} at {} reads in step {} ({})", p.a.tensor, p.a.op, p.a.path, p.a.step, name(p.a.phase));
  }

  void note(const ComparedPair& p) {
    if (p.by == ComparedBy::bits) ++out_.equal_bits;
    if (p.beyond() && !found) found = Found{p.a.step, out_.pairs.size(), culprit_of(p)};
    if (p.a.output) made_.insert(p.a.figures.positional);
    if (std::isfinite(p.error))
      largest_ = std::max(largest_, p.error);
    else
      largest_ = std::numeric_limits<double>::infinity();
  }

  Culprit culprit_of(const ComparedPair& p) const {
    const bool is_weight = (p.a.op == kStateOp && is_given(p.a)) || (!p.a.output && !p.a.parameters.empty());
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
    return c;
  }

  // Parameters before the first step: no call of the dump has made them.
  bool is_given(const DumpRecord& r) const { return r.op == kStateOp && r.step == first_step_ && !updates_.contains(r.step); }

  // Of dumps without calls: losses and norms of steps.
  void judge_ends() {
    for (const auto& [step, a] : a_.steps) {
      const auto b = b_.steps.find(step);
      if (b == b_.steps.end() || backwards_.contains(step)) continue;
      for (const auto& [what, x, y] :
           {std::tuple{"loss", a.loss, b->second.loss}, {"grad_norm", a.grad_norm, b->second.grad_norm}}) {
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        const double error = std::abs(x - y) / std::max(std::abs(x), std::numeric_limits<double>::min());
        if (error <= kUnknownCall * rounding_of(DType::f32)) continue;
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
  StoredDump &stored_a_, &stored_b_;
  Comparison& out_;
  std::unordered_set<uint64_t> made_;      // checksums of what calls of A have written
  std::set<int64_t> updates_, backwards_;  // steps of which the dump has such calls (backward: any but the update)
  int64_t first_step_ = -1;
  double largest_ = 0;  // error so far
};

}  // namespace

Comparison compare_dumps(const Dump& a, const Dump& b) {
  Comparison out;
  StoredDump stored_a(a.folder), stored_b(b.folder);
  Unmatched unmatched;
  std::set<std::string> paired;
  std::optional<RankComparison::Found> first;
  for (const RankDump& rank : a.ranks) {
    const auto other = std::find_if(b.ranks.begin(), b.ranks.end(), [&](const RankDump& r) { return r.rank == rank.rank; });
    if (other == b.ranks.end()) {
      out.unmatched.push_back(fmt::format("rank {}, only in A", rank.rank));
      continue;
    }
    RankComparison c(rank, *other, stored_a, stored_b, out);
    c.run(unmatched, paired);
    if (c.found && (!first || c.found->step < first->step)) first = c.found;
    if (out.inherited_from.empty()) out.inherited_from = c.inherited_from;
  }
  for (const RankDump& rank : b.ranks)
    if (std::none_of(a.ranks.begin(), a.ranks.end(), [&](const RankDump& r) { return r.rank == rank.rank; }))
      out.unmatched.push_back(fmt::format("rank {}, only in B", rank.rank));
  for (std::string& words : unmatched.words(paired)) out.unmatched.push_back(std::move(words));
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
