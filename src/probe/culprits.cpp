#include "probe/culprits.h"

#include <fmt/format.h>

#include <algorithm>

#include "probe/hypothesis.h"

namespace ravine {
namespace {

constexpr const char* kInputOp = "input";

// Returns the sides whose output is not the result of Ravine's kernel on their inputs: "A", "B", "A and B".
std::string generates(const ComparedPair& p) {
  const bool a = p.generated_a && p.generated_a->beyond(), b = p.generated_b && p.generated_b->beyond();
  return a && b ? "A and B" : a ? "A" : b ? "B" : "";
}

std::string name_of_input(const DumpRecord& r) {
  const std::string scalars = std::string(kScalars) + ".";
  if (r.tensor == scalars + "clip") return "clip";
  if (r.tensor.starts_with(scalars)) return "optimizer." + r.tensor.substr(scalars.size());
  if (r.tensor == "table" || r.tensor == "rope") return "rope.table";
  return r.tensor;
}

}  // namespace

bool is_gradient(const DumpRecord& r) { return r.tensor == "out" || r.tensor == "grad" || r.tensor.starts_with('d'); }

Culprit culprit_of(const ComparedPair& p, bool given, const RankDump& a, const RankDump& b) {
  const bool is_weight =
      !p.made_by && ((p.a.op == kStateOp && given) || (!p.a.output && !p.a.parameters.empty() && !is_gradient(p.a)));
  Culprit c{.step = p.a.step,
            .micro = p.a.micro,
            .phase = std::string(name(p.a.phase)),
            .path = p.a.path,
            .op = p.a.op,
            .tensor = p.a.tensor,
            .hypothesis = p.note.empty() ? hypothesis_of(p) : p.note,
            .rank = a.rank,
            .error = p.error,
            .bound = p.own + p.inherited,
            .by_setting = p.by_setting};
  if (c.generates = generates(p); !c.generates.empty()) {
    const GeneratedError& worse =
        p.generated_a && (!p.generated_b || p.generated_a->ratio() >= p.generated_b->ratio()) ? *p.generated_a : *p.generated_b;
    c.error = worse.error, c.bound = worse.bound;
    c.hypothesis = fmt::format("{} not compute it: of its own inputs our kernel makes what is {:.2g} away{}{}",
                               c.generates == "A and B" ? "A and B do" : c.generates + " does", worse.error,
                               c.hypothesis.empty() ? "" : "; ", c.hypothesis);
  }
  const bool loss = p.a.op.find("loss") != std::string::npos || p.a.op == "cross_entropy";
  c.kind = is_weight                             ? CulpritKind::weights
           : !p.a.output && !is_float(p.a.dtype) ? CulpritKind::data
           : p.a.op == kGradientOp               ? CulpritKind::backward
           : p.a.phase == Phase::update          ? CulpritKind::update
           : p.a.phase == Phase::backward        ? CulpritKind::backward
           : loss                                ? CulpritKind::loss
                                                 : CulpritKind::forward;
  if (p.made_by) {
    c.phase = name(p.made_by->phase), c.path = p.made_by->path, c.op = p.made_by->op, c.tensor = p.made_by->tensor;
    c.hypothesis = fmt::format("{} alone has this call, and '{}' that {} at {} reads is not the same behind it",
                               p.made_in_b ? "B" : "A", p.a.tensor, p.a.op, p.a.path);
  } else if (p.a.op == kStateOp && !p.note.empty()) {  // a state of another program's optimizer
    const std::string setting = p.note.substr(0, p.note.find(' '));
    if (setting == "lr" || setting.starts_with("beta"))
      c.op = kInputOp, c.path = "optimizer." + setting;
    else
      c.op = a.session.contains("optimizer")   ? a.session["optimizer"].get<std::string>()
             : b.session.contains("optimizer") ? b.session["optimizer"].get<std::string>()
                                               : c.op;
  } else if (!p.rewired && (is_weight || !p.a.output)) {
    if (p.a.op != kStateOp) c.reader = fmt::format("{} at {}", p.a.op, p.a.path);
    c.path = is_weight ? (p.a.op == kStateOp ? p.a.path : p.a.parameters.front()) : name_of_input(p.a);
    c.op = kInputOp;
  }
  return c;
}

void add_culprit(std::vector<Culprit>& to, Culprit c) {
  for (Culprit& known : to)
    if (c.op == kInputOp ? known.op == c.op && known.path == c.path
                         : (known.kind == c.kind && known.op == c.op && known.tensor == c.tensor) ||
                               (c.by_setting && known.by_setting && known.hypothesis == c.hypothesis)) {
      const int64_t alike = known.alike + 1 + c.alike;
      if (c.order < known.order) known = std::move(c);  // it is of another rank
      known.alike = alike;
      return;
    }
  to.push_back(std::move(c));
}

void drop_modules_around(std::vector<Culprit>& culprits) {
  std::vector<Culprit> kept;
  for (Culprit& c : culprits)
    if (std::none_of(kept.begin(), kept.end(),
                     [&](const Culprit& k) { return k.rank == c.rank && k.path.starts_with(c.path + "."); }))
      kept.push_back(std::move(c));
  culprits = std::move(kept);
}

std::optional<Culprit> other_update_rule(const Dump& a, const Dump& b) {
  std::string rules[2];
  for (const auto& [dump, rule] : {std::pair{&a, &rules[0]}, {&b, &rules[1]}})
    for (const RankDump& rank : dump->ranks) {
      const bool updates = std::any_of(rank.records.begin(), rank.records.end(), [](const DumpRecord& r) {
        return r.phase == Phase::update && r.step > 0 && r.op != kStateOp && r.op != kGradientOp;
      });
      if (updates && rank.session.contains("optimizer") && rank.session["optimizer"].is_string())
        *rule = rank.session["optimizer"].get<std::string>();
    }
  if (rules[0].empty() || rules[1].empty() || rules[0] == rules[1]) return {};
  Culprit c;
  c.phase = "update", c.op = rules[0], c.path = "optimizer.type", c.kind = CulpritKind::update, c.by_setting = true;
  c.step = a.ranks.empty() || a.ranks[0].steps.empty() ? 1 : a.ranks[0].steps.begin()->first;
  c.order = {c.step, static_cast<int64_t>(Phase::update), 0};
  c.hypothesis = fmt::format("optimizer.type is {} in A and {} in B", rules[0], rules[1]);
  return c;
}

}  // namespace ravine
