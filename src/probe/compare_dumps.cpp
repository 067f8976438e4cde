#include "probe/compare_dumps.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "probe/common_calls.h"
#include "probe/compare_bounds.h"
#include "probe/culprits.h"
#include "probe/hypothesis.h"
#include "probe/producers.h"
#include "probe/spread.h"
#include "probe/stored_dump.h"
#include "probe/torch_trace.h"
#include "probe/unmatched.h"
#include "probe/whole_run.h"

namespace ravine {
namespace {

// Tensors that the host passes to calls.
constexpr const char* kHostMade[] = {"ids", "labels", "positions", "sequences", "table", "rope", "slopes"};

constexpr double kReordered = 2;  // largest |b - a| / |a| of the same numbers in another order

// Compares the calls of one rank, in the order of the run, with those in the other dump.
class RankComparison {
 public:
  RankComparison(const RankDump& a, const RankDump& b, StoredDump& stored_a, StoredDump& stored_b, Comparison& out,
                 const Substituted* substituted)
      : a_(a),
        b_(b),
        made_a_(a.records),
        made_b_(b.records),
        stored_a_(stored_a),
        stored_b_(stored_b),
        out_(out),
        substituted_(substituted),
        common_(common_calls(a, b, out.of_modules)) {}

  std::vector<Culprit> found;  // in the order of the run
  std::string inherited_from;

  void run(Unmatched& unmatched, std::set<std::string>& paired) {
    std::unordered_map<std::string, const DumpRecord*> others;
    for (const DumpRecord& r : b_.records) others.emplace(r.key(), &r);
    std::unordered_set<std::string> met;
    same_arithmetic_ =
        a_.session.contains("compute") && b_.session.contains("compute") && a_.session["compute"] == b_.session["compute"];
    for (const DumpRecord& r : a_.records) {
      if (!common_.all.contains(r.call())) continue;
      if (r.op == kGradientOp) largest_gradient_[r.step] = std::max(largest_gradient_[r.step], r.figures.l2);
      if (r.op != kStateOp && r.op != kGradientOp && r.phase == Phase::update) updates_.insert(r.step);
      if (first_step_ < 0 || r.step < first_step_) first_step_ = r.step;
    }
    std::vector<Records> pairs;
    for (const DumpRecord& r : a_.records) {
      const auto other = others.find(r.key());
      if (other == others.end() || !common_.all.contains(r.call())) {
        unmatched.add("A", a_.rank, r);
        continue;
      }
      met.insert(other->first);
      paired.insert(Unmatched::group(a_.rank, r));
      pairs.push_back({&r, other->second});
    }
    std::vector<ComparedPair> call;
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (!call.empty() && call.back().a.call() != pairs[i].a->call()) judge(call);
      if (i == 0) will_compare(pairs[i]);
      if (i + 1 < pairs.size()) will_compare(pairs[i + 1]);
      DumpRecord a = *pairs[i].a, b = *pairs[i].b;
      if (a.tensor == "table" && a.shape.count() != b.shape.count() && !cut_to_fewer_rows(a, b)) {
        unmatched.add("A", a_.rank, *pairs[i].a), unmatched.add("B", b_.rank, *pairs[i].b);
        continue;
      }
      call.push_back(compare(a, b));
      origins_.push_back(pairs[i]);
    }
    judge(call);
    for (const DumpRecord& r : b_.records)
      if (!met.contains(r.key())) unmatched.add("B", b_.rank, r);
    if (found.empty()) judge_ends();
  }

 private:
  struct Records {
    const DumpRecord *a, *b;
  };
  // Cuts the longer table to the rows of the shorter one: other programs have tables for the positions of the batch,
  // Ravine for all positions. Returns false if the longer table is not stored.
  bool cut_to_fewer_rows(DumpRecord& a, DumpRecord& b) {
    if (!out_.of_modules || a.shape.rank() != 2 || b.shape.rank() != 2 || a.shape[1] != b.shape[1]) return false;
    DumpRecord& longer = a.shape[0] > b.shape[0] ? a : b;
    if (!longer.is_stored()) return false;
    const auto all = (&longer == &a ? stored_a_ : stored_b_).bytes(longer);
    longer.shape[0] = std::min(a.shape[0], b.shape[0]);
    std::vector<std::byte> rows(all.begin(), all.begin() + longer.shape.count() * size_of(longer.dtype));
    longer.figures = figures_of(view_of(rows.data(), longer.dtype, longer.shape), true);
    longer.file.clear(), longer.parts.clear();
    return true;
  }

  ComparedPair compare(const DumpRecord& a, const DumpRecord& b) {
    ComparedPair p{.rank = a_.rank, .a = a, .b = b};
    // other programs have [B, T, C]
    if (out_.of_modules ? a.shape.count() != b.shape.count() : !(a.shape == b.shape)) {
      p.by = ComparedBy::nothing;
      p.error = std::numeric_limits<double>::infinity();
    } else if (a.dtype == b.dtype && a.figures.same_bits(b.figures)) {
      p.by = a.figures.rough ? ComparedBy::figures : ComparedBy::bits;
    } else if (a.is_stored() && b.is_stored()) {
      p.by = ComparedBy::tensors;
      p.exact = errors_of(a, b);
      p.error = p.exact->relative;
    } else if (a.figures.has_statistics && b.figures.has_statistics) {
      p.by = ComparedBy::statistics;
      p.error = least_error(a.figures, b.figures);
      if (a.figures.order_free == b.figures.order_free) p.error = kReordered;
    } else {
      p.by = ComparedBy::checksums;
      p.error = std::numeric_limits<double>::infinity();
    }
    if (out_.of_modules && a.dtype != b.dtype && !is_float(a.dtype) && !is_float(b.dtype) && p.error < 1e-12)
      p.by = ComparedBy::figures, p.exact.reset();  // other programs may have ids as i64
    return p;
  }

  // Starts reading a pair from disk while the previous pair is compared.
  void will_compare(const Records& r) {
    if (r.a->figures.same_bits(r.b->figures) || !r.a->is_stored() || !r.b->is_stored()) return;
    stored_a_.will_read(*r.a), stored_b_.will_read(*r.b);
  }

  // Returns the errors of a pair. Tensors that several calls write or read are read once.
  PairErrors errors_of(const DumpRecord& a, const DumpRecord& b) {
    const auto sums = std::make_tuple(a.figures.order_free, a.figures.positional, a.dtype, b.figures.order_free,
                                      b.figures.positional, b.dtype, a.shape.count());
    const auto [it, fresh] = known_errors_.try_emplace(sums);
    if (fresh) {
      const std::span<const std::byte> of_a = stored_a_.bytes(a), of_b = stored_b_.bytes(b);
      it->second = errors_between(a.dtype, of_a, b.dtype, of_b);
    }
    return it->second;
  }

  // Sets the bounds of the outputs of a call, judges them, and clears `call`.
  void judge(std::vector<ComparedPair>& call) {
    if (call.empty()) return;
    const DumpRecord& r = call.front().a;
    const bool state = r.op == kStateOp, gradient = r.op == kGradientOp;
    const std::vector<ComparedPair> given = with_clipped_gradient(call);
    const bool reads = std::any_of(call.begin(), call.end(), [](const ComparedPair& p) { return !p.a.output; });
    for (ComparedPair& p : call) {
      if (state) {
        p.judged = is_given(p.a) || out_.layouts_differ || out_.of_modules || !updates_.contains(p.a.step);
        if (is_given(p.a) && !p.same() && !p.rough()) p.error = std::max(p.error, std::numeric_limits<double>::min());
        p.own = is_given(p.a) ? rounding_of_figures(p) : kUnknownCall * rounding_of(p.a.dtype);
        p.inherited = is_given(p.a) ? 0 : kInherited * largest_;
      } else if (gradient) {
        p.judged = true;  // sums over ranks and micro batches are no calls
        // A gradient whose terms cancel (the bias of keys) has roundings of the size of the other gradients.
        const double others = p.a.figures.l2 > 0 ? largest_gradient_[p.a.step] / p.a.figures.l2 : 0;
        p.own = kUnknownCall * rounding_of(p.a.dtype) * std::max(1.0, others), p.inherited = kInherited * largest_;
      } else if (!p.a.output) {
        if (p.by == ComparedBy::statistics) p.error = std::max(p.error, reach_of_update(p));
        judge_input(p, origins_[static_cast<size_t>(&p - call.data())]);
      } else {
        p.judged = true;
        const ErrorBound bounds = bounds_of(call, p);
        p.own = bounds.own + rounding_of_figures(p);
        p.inherited = reads ? bounds.inherited : inherited_at_most(p);
        if (reads && (out_.own_names || common_.partly.contains(p.a.call()))) p.inherited += inherited_at_most(p);
      }
    }
    judge_settings(call);
    if (explained_by_an_input(call))
      for (ComparedPair& p : call)
        if (p.a.output) p.judged = false;
    if (substituted_) judge_by_substitution(call);
    for (ComparedPair& p : call) note(p);
    for (ComparedPair& p : call) out_.pairs.push_back(std::move(p));
    call.clear();
    origins_.clear();
  }

  // Returns the rounding of figures that another program has computed, in its type or f32, with sums of many numbers.
  static double rounding_of_figures(const ComparedPair& p) {
    return p.rough() ? 32 * std::max({rounding_of(DType::f32), rounding_of(p.a.dtype), rounding_of(p.b.dtype)}) : 0;
  }

  // Adds the error of the clipping factor to the gradient that an update reads.
  static std::vector<ComparedPair> with_clipped_gradient(std::vector<ComparedPair> call) {
    double factor = 0;
    for (const ComparedPair& p : call)
      if (p.a.tensor == kScalars && p.a.values.size() == 4 && p.b.values.size() == 4 && p.a.values[3] != 0)
        factor = std::abs(p.b.values[3] / p.a.values[3] - 1);
    for (ComparedPair& p : call)
      if (factor > 0 && !p.a.output && p.a.tensor == "grad") p.error += factor;
    return call;
  }

  // True if the outputs are explained by the inputs: an input is a culprit, or another choice (of experts, of tokens)
  // was made before. A new choice from differing numbers is explained, too.
  bool explained_by_an_input(const std::vector<ComparedPair>& call) const {
    bool numbers_differ = false;
    for (const ComparedPair& p : call) {
      if (p.a.output || p.same()) continue;
      if (p.beyond() || (p.error > 0 && !is_float(p.a.dtype))) return true;
      if (p.a.tensor == kScalars && !p.same() && scalars_named_) return true;
      numbers_differ |= p.error > 0;
    }
    return numbers_differ && std::any_of(call.begin(), call.end(), [](const ComparedPair& p) {
             return p.a.output && !is_float(p.a.dtype) && p.note.empty();
           });
  }

  // Judges differing numbers in the formula of a call: they explain its output, and no bound excuses them.
  void judge_settings(std::vector<ComparedPair>& call) {
    // scalars hold the values that follow from the betas
    const bool scalars =
        std::any_of(call.begin(), call.end(), [](const ComparedPair& p) { return p.a.tensor.starts_with(kScalars); });
    for (ComparedPair& p : call) {
      if (!p.a.output || p.same()) continue;
      if (p.a.dtype != p.b.dtype && same_arithmetic_) {
        p.judged = true, p.own = p.inherited = 0;
        p.note = fmt::format("{} in A and {} in B", name(p.a.dtype), name(p.b.dtype)), p.by_setting = true;
        return;
      }
      for (const auto& [key, a] : p.a.settings)
        for (const auto& [other, b] : p.b.settings)
          if (key == other && !(scalars && key.starts_with("beta")) &&
              std::abs(a - b) > 4 * rounding_of(DType::f64) * std::abs(a)) {
            p.judged = true, p.own = p.inherited = 0;
            p.error = std::max(p.error, std::numeric_limits<double>::min());
            p.note = fmt::format("{} is {:.9g} in A and {:.9g} in B", key, a, b), p.by_setting = true;
            for (ComparedPair& other : call)  // named once for all outputs
              if (&other != &p && other.a.output) other.judged = false;
            return;
          }
    }
  }

  // Returns the inherited bound if no kernel bound is known.
  double inherited_at_most(const ComparedPair& p) {
    if (substituted_ && found.empty())
      if (const auto it = substituted_->spread.find(Substituted::key_on(a_.rank, p.a)); it != substituted_->spread.end()) {
        ++out_.by_spread;
        return kOfSpread * it->second;
      }
    return kInherited * largest_;
  }

  // Judges outputs by the result of Ravine's kernel on the inputs of A and of B, unless numbers of the formula differ,
  // which are named in any case.
  void judge_by_substitution(std::vector<ComparedPair>& call) {
    const bool set = std::any_of(call.begin(), call.end(), [](const ComparedPair& p) { return p.by_setting; });
    ComparedPair *named = nullptr, *generating = nullptr;
    for (ComparedPair& p : call) {
      if (!p.a.output) continue;
      const bool candidate = p.beyond();
      if (p.by_setting) named = &p;
      const std::string key = Substituted::key_on(a_.rank, p.a);
      for (const auto& [of, to] : {std::pair{&substituted_->a, &p.generated_a}, {&substituted_->b, &p.generated_b}})
        if (const auto it = of->find(key); it != of->end()) *to = it->second;
      out_.substituted += p.substituted();
      if (!generating && p.generates()) generating = &p;
      if (!p.substituted() || set) continue;
      p.judged = true;
      if (candidate && !p.generates())
        out_.inherits.push_back(fmt::format("{} at {} ({}, step {})", p.a.op, p.a.path, name(p.a.phase), p.a.step));
    }
    if (named && generating && !named->generates()) {  // the note on the number moves to the output that it changed
      generating->judged = generating->by_setting = true, generating->note = std::move(named->note);
      named->judged = named->by_setting = false, named->note.clear();
    }
  }

  // Returns the largest relative difference of a parameter after updates with differing gradients: rounding alone may
  // reverse a whole step of Adam, and norms do not show this.
  double reach_of_update(const ComparedPair& p) const {
    if (p.a.parameters.empty() || p.a.step == first_step_ || p.a.phase == Phase::update || p.a.figures.l2 == 0) return 0;
    double rate = 0;
    for (const auto& [step, end] : a_.steps)
      if (step < p.a.step && std::isfinite(end.lr)) rate += 2 * std::abs(end.lr);
    return rate * std::sqrt(static_cast<double>(p.a.figures.count)) / p.a.figures.l2;
  }

  // Judges an input that no common call has made. Inputs of the host or of the start (ids, tables, learning rates,
  // parameters of the first step) must have the same bits. The output of a call in one dump only is compared with the
  // bound of an unknown call.
  void judge_input(ComparedPair& p, const Records& of) {
    if (p.same()) return;
    const DumpRecord *by_a = made_a_.of(*of.a), *by_b = made_b_.of(*of.b);
    const bool alone_a = by_a && !common_.all.contains(by_a->call()), alone_b = by_b && !common_.all.contains(by_b->call());
    if (alone_a || alone_b) {
      p.judged = true;
      p.own = kUnknownCall * std::max(rounding_of(p.a.dtype), rounding_of(p.b.dtype)), p.inherited = inherited_at_most(p);
      p.made_by = *(alone_b ? by_b : by_a);
      p.made_in_b = alone_b;
      return;
    }
    const auto zeros = [](const DumpRecord& r) { return r.figures.has_statistics && r.figures.zero == r.figures.count; };
    if (by_a && by_b && !zeros(p.a) && !zeros(p.b) && (by_a->call() != by_b->call() || by_a->tensor != by_b->tensor)) {
      p.judged = true;
      p.own = kUnknownCall * std::max(rounding_of(p.a.dtype), rounding_of(p.b.dtype)), p.inherited = inherited_at_most(p);
      p.rewired = true;
      p.note = fmt::format("A reads '{}' of {} at {} there, B '{}' of {} at {}", by_a->tensor, by_a->op, by_a->path,
                           by_b->tensor, by_b->op, by_b->path);
      return;
    }
    if (by_a || by_b) return;
    // Parameters that were equal after the previous step must be equal in all calls that read them.
    const bool same = std::all_of(p.a.parameters.begin(), p.a.parameters.end(),
                                  [&](const std::string& name) { return same_weights_.contains(name); });
    const bool of_weights = !p.a.parameters.empty() && !is_gradient(p.a) && p.by != ComparedBy::nothing &&
                            (p.a.step == first_step_ || same) && p.a.phase != Phase::update;
    const bool whole_numbers = !is_float(p.a.dtype) && (largest_ == 0 || is_host_made(p.a.tensor));
    if (p.a.tensor == kScalars) return judge_scalars(p);
    if (of_weights || whole_numbers || is_host_made(p.a.tensor)) {
      p.judged = true;
      p.own = rounding_of_figures(p) + (p.a.dtype == p.b.dtype ? 0 : std::max(rounding_of(p.a.dtype), rounding_of(p.b.dtype)));
      if (!p.rough()) p.error = std::max(p.error, std::numeric_limits<double>::min());
    } else if (p.error > 0 && largest_ == 0 && is_float(p.a.dtype) && inherited_from.empty() && p.a.parameters.empty() &&
               p.error > kUnknownCall * rounding_of(p.a.dtype)) {
      inherited_from =
          fmt::format("'{}' that {} at {} reads in step {} ({})", p.a.tensor, p.a.op, p.a.path, p.a.step, name(p.a.phase));
    }
  }

  // Judges the scalars of an update (optim/rules): learning rate, 1 - beta^t of both moments, and the factor on
  // gradients. Only the factor depends on results of the step: clip_norm / norm, or 1 if the norm is not larger.
  void judge_scalars(ComparedPair& p) {
    static constexpr const char* kNames[] = {"lr", "beta1", "beta2", "clip"};
    const std::vector<double>&a = p.a.values, &b = p.b.values;
    if (a.size() != b.size()) return;
    for (size_t i = 0; i < a.size() && i < std::size(kNames); ++i) {
      double error = std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), std::numeric_limits<double>::min());
      if (i == 3 && error > 0) error = clip_error(p.a.step, a[i], b[i]);
      const double own = (i == 3 ? kUnknownCall * rounding_of(DType::f32) : 4 * rounding_of(DType::f64));
      if (error <= own || (p.judged && error <= p.error)) continue;
      p.judged = true, p.error = error, p.own = own, p.inherited = 0;
      p.a.tensor = p.b.tensor = fmt::format("{}.{}", kScalars, kNames[i]);
      // The scalar of a beta is 1 - beta^step, or 1 without bias correction.
      const auto shown = [&](double x) {
        if (i != 1 && i != 2) return fmt::format("{:.9g}", x);
        if (x == 1) return std::string("not corrected");
        return fmt::format("{:.6g}", std::pow(1 - x, 1 / static_cast<double>(std::max<int64_t>(1, p.a.step))));
      };
      p.note = fmt::format("{} is {} in A and {} in B", kNames[i], shown(a[i]), shown(b[i]));
    }
  }

  // Returns the relative difference of the clipped norms, from the factors a and b on the gradients and the norms of
  // the step.
  double clip_error(int64_t step, double a, double b) const {
    const auto x = a_.steps.find(step), y = b_.steps.find(step);
    if (x == a_.steps.end() || y == b_.steps.end() || !(x->second.grad_norm > 0) || !(y->second.grad_norm > 0))
      return largest_ > 0 ? 0 : std::abs(a - b) / std::abs(a);
    const double cut_a = a * x->second.grad_norm, cut_b = b * y->second.grad_norm;
    // A norm that was not clipped must be at most the limit of the other side.
    if (a == 1 || b == 1) return std::max(0.0, a == 1 ? cut_a / cut_b - 1 : cut_b / cut_a - 1);
    return std::abs(cut_a / cut_b - 1);
  }

  static bool is_host_made(const std::string& tensor) {
    return std::find(std::begin(kHostMade), std::end(kHostMade), tensor) != std::end(kHostMade);
  }

  void note(const ComparedPair& p) {
    ++noted_;
    out_.equal_bits += p.by == ComparedBy::bits, out_.equal_figures += p.by == ComparedBy::figures;
    if (p.a.op == kStateOp && p.a.tensor == "weights")
      p.same() ? (void)same_weights_.insert(p.a.path) : (void)same_weights_.erase(p.a.path);
    if (p.beyond() && named_call_ != p.a.call()) {
      Culprit c = culprit_of(p, is_given(p.a), a_, b_);
      c.order = {p.a.step,
                 p.a.phase == Phase::forward  ? 0
                 : p.a.phase != Phase::update ? 1
                 : p.a.op == kGradientOp      ? 2
                                              : 3,
                 static_cast<int64_t>(noted_)};
      add_culprit(found, std::move(c));
      if (p.a.output) named_call_ = p.a.call();
      scalars_named_ |= p.a.tensor.starts_with(kScalars);
    }
    if (!p.a.output && !p.judged) return;  // the error of its own call is included already, or no call made it
    largest_ = std::isfinite(p.error) ? std::max(largest_, p.error) : std::numeric_limits<double>::infinity();
  }

  // True for parameters before the first step, which no call of the dump has made.
  bool is_given(const DumpRecord& r) const { return r.op == kStateOp && r.step == first_step_ && !updates_.contains(r.step); }

  // Judges losses and norms of steps.
  void judge_ends() {
    for (const auto& [step, a] : a_.steps) {
      const auto b = b_.steps.find(step);
      if (b == b_.steps.end()) continue;
      for (const auto& [what, x, y] :
           {std::tuple{"loss", a.loss, b->second.loss}, {"grad_norm", a.grad_norm, b->second.grad_norm}}) {
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        const double error = std::abs(x - y) / std::max(std::abs(x), std::numeric_limits<double>::min());
        if (error <= kUnknownCall * rounding_of(DType::f32) + kInherited * largest_) continue;
        found.push_back({.step = step,
                         .micro = 1,
                         .phase = "forward",
                         .path = what,
                         .op = "step",
                         .tensor = what,
                         .kind = CulpritKind::loss,
                         .rank = a_.rank,
                         .error = error});
        return;
      }
    }
  }

  const RankDump &a_, &b_;
  const Producers made_a_, made_b_;
  StoredDump &stored_a_, &stored_b_;
  std::map<std::tuple<uint64_t, uint64_t, DType, uint64_t, uint64_t, DType, int64_t>, PairErrors> known_errors_;
  Comparison& out_;
  const Substituted* substituted_;  // null: none
  const CommonCalls common_;
  std::vector<Records> origins_;                  // of the pairs of the current call
  std::set<int64_t> updates_;                     // steps with update calls in both dumps
  int64_t first_step_ = -1;                       // first step with common calls: nothing before its inputs is compared
  double largest_ = 0;                            // largest error up to here
  std::unordered_set<std::string> same_weights_;  // parameters with equal bits after the last step
  int64_t noted_ = 0;                             // number of pairs up to here
  bool scalars_named_ = false;
  bool same_arithmetic_ = false;                // both sides name their compute type, and it is the same
  std::map<int64_t, double> largest_gradient_;  // largest norm, by step
  std::string named_call_;                      // the last call that has an output above its bound
};

}  // namespace

Comparison compare_dumps(Dump a, Dump b, const Substituted* substituted) {
  Comparison out;
  if (a.of_modules || b.of_modules)
    for (Dump* dump : {&a, &b})
      for (RankDump& rank : dump->ranks) fill_parameter_settings(rank);
  StoredDump stored_a(a.folder), stored_b(b.folder);
  Unmatched unmatched;
  std::set<std::string> paired;
  auto hold = [&](const RankDump& rank, const RankDump& other) {
    RankComparison c(rank, other, stored_a, stored_b, out, substituted);
    c.run(unmatched, paired);
    for (Culprit& one : c.found) add_culprit(out.culprits, std::move(one));
    if (out.inherited_from.empty()) out.inherited_from = c.inherited_from;
  };
  out.layouts_differ = !same_layout(a, b), out.of_modules = a.of_modules || b.of_modules;
  out.own_names = a.own_names && b.own_names;
  for (const auto& [dump, side] : {std::pair{&a, "A"}, {&b, "B"}})
    for (const std::string& words : dump->aside) out.unmatched.push_back(fmt::format("{}, only in {}", words, side));
  if (out.layouts_differ) {
    if (out.of_modules)  // other programs have tables for the positions of a batch: these are not parts of one tensor
      for (Dump* dump : {&a, &b})
        for (RankDump& rank : dump->ranks) std::erase_if(rank.records, [](const DumpRecord& r) { return r.tensor == "table"; });
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
  if (std::optional<Culprit> rule = other_update_rule(a, b)) out.culprits.push_back(std::move(*rule));
  std::stable_sort(out.culprits.begin(), out.culprits.end(),
                   [](const Culprit& x, const Culprit& y) { return x.order < y.order; });
  if (out.own_names) drop_modules_around(out.culprits);
  if (!out.culprits.empty()) out.inherited_from.clear();
  out.verdict = verdict_of(out);
  return out;
}

}  // namespace ravine
