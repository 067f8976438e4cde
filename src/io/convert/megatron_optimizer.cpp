#include <filesystem>
#include <map>

#include "config/bounds.h"
#include "io/convert/megatron_distrib.h"
#include "io/convert/megatron_folder.h"
#include "io/convert/torch_elements.h"

namespace ravine {
namespace {

[[noreturn]] void refuse_moments(const TorchFile& f, const std::string& rule) {
  throw UserError("optimizer state cannot be read", f.path(), rule,
                  "leave out --optimizer, or save the run with its optimizer state");
}

std::map<int64_t, Pickle::Ref> numbered(const Pickle& p, Pickle::Ref dict) {
  std::map<int64_t, Pickle::Ref> out;
  if (const auto* fields = p.fields(dict))
    for (size_t i = 0; i < fields->size(); i += 2)
      if (const auto key = p.integer((*fields)[i])) out[*key] = (*fields)[i + 1];
  return out;
}

// Returns the optimizer's states, group by group.
std::vector<std::vector<ElementsPtr>> groups_of(const MegatronRank& rank, StateKind kind) {
  const TorchFile& f = *rank.file;
  const Pickle& p = f.pickle();
  std::vector<std::vector<ElementsPtr>> out;
  if (kind == StateKind::masters) {
    const auto outer = p.find(p.root(), "optimizer");
    const auto masters = outer ? p.find(*outer, "fp32_from_fp16_params") : std::nullopt;
    if (!masters || p.kind(*masters) != Pickle::Kind::list) return {};
    for (Pickle::Ref group : p.items(*masters)) {
      if (p.kind(group) != Pickle::Kind::list) refuse_moments(f, "fp32_from_fp16_params is a list of lists of tensors");
      auto& to = out.emplace_back();
      for (Pickle::Ref v : p.items(group))
        to.push_back(torch_elements(rank.file, v, fmt::format("master {} of group {}", to.size(), out.size())));
    }
    return out;
  }
  const auto optimizer = torch_optimizer(p);
  if (!optimizer) refuse_moments(f, "it must hold 'optimizer' with 'state' and 'param_groups'");
  if (!p.find(*optimizer, "state"))
    refuse_moments(f,
                   "its optimizer is a distributed one, whose state lies in distrib_optim.pt beside it: the file is missing");
  const auto state = numbered(p, *p.find(*optimizer, "state"));
  const char* key = kind == StateKind::first_moment ? "exp_avg" : "exp_avg_sq";
  const Pickle::Ref groups = *p.find(*optimizer, "param_groups");
  if (p.kind(groups) != Pickle::Kind::list) refuse_moments(f, "param_groups is a list");
  for (Pickle::Ref group : p.items(groups)) {
    const auto params = p.find(group, "params");
    if (!params || p.kind(*params) != Pickle::Kind::list) refuse_moments(f, "each of param_groups holds a list 'params'");
    auto& to = out.emplace_back();
    for (Pickle::Ref number : p.items(*params)) {
      auto it = state.find(p.integer(number).value_or(-1));
      const auto moment = it == state.end() ? std::nullopt : p.find(it->second, key);
      if (!moment)
        refuse_moments(f,
                       fmt::format("parameter {} has no '{}'; moments of Adam are read", p.integer(number).value_or(-1), key));
      to.push_back(torch_elements(rank.file, *moment, fmt::format("{} of parameter {}", key, it->first)));
    }
  }
  return out;
}

// Returns a number of updates, which may be stored as a tensor; 0 for None.
int64_t updates_of(const TorchFile& f, Pickle::Ref step) {
  if (f.pickle().kind(step) == Pickle::Kind::none) return 0;
  const auto updates = torch_whole_number(f, step);
  if (!updates || *updates < 0 || static_cast<double>(*updates) > kMostSteps)
    throw UserError(fmt::format("bad step of the optimizer: {}", updates ? std::to_string(*updates) : "no whole number"),
                    f.path() + ": optimizer, step", fmt::format("it counts updates, from 0 to {:.0f}", kMostSteps),
                    "use another checkpoint");
  return *updates;
}

}  // namespace

// The dict is the entry "optimizer", or its inner entry of that name (16-bit runs, the distributed optimizer).
std::optional<Pickle::Ref> torch_optimizer(const Pickle& p) {
  const auto outer = p.find(p.root(), "optimizer");
  if (!outer || !p.fields(*outer)) return {};
  const auto inner = p.find(*outer, "optimizer");
  const Pickle::Ref dict = inner ? *inner : *outer;
  return p.find(dict, "param_groups") ? std::optional(dict) : std::nullopt;
}

std::vector<MegatronRank::Tensor*> parameters_of(std::vector<MegatronRank::Tensor>& chunk) {
  std::vector<MegatronRank::Tensor*> out;
  for (MegatronRank::Tensor& t : chunk)
    if (!t.name.ends_with("inv_freq") && !t.name.ends_with("expert_bias") && is_float(t.elements->dtype())) out.push_back(&t);
  return out;
}

void take_from_optimizer(MegatronRank& rank, StateKind kind) {
  if (std::filesystem::exists(distrib_file(rank.file->path()))) return take_from_distrib(rank, kind);
  const auto groups = groups_of(rank, kind);
  if (groups.empty()) return;  // masters of an f32 run are its weights
  using Tensor = MegatronRank::Tensor;
  std::vector<Tensor*> all, matrices, vectors;
  for (auto& chunk : rank.chunks)
    for (Tensor* t : parameters_of(chunk)) {
      all.push_back(t);
      (t->elements->shape().rank() > 1 ? matrices : vectors).push_back(t);
    }
  std::vector<const std::vector<Tensor*>*> free{&all, &matrices, &vectors};
  size_t taken = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].empty()) continue;
    bool found = false;
    for (auto& candidate : free) {
      if (!candidate || candidate->size() != groups[i].size()) continue;
      bool same = true;
      for (size_t k = 0; k < groups[i].size() && same; ++k) same = groups[i][k]->shape() == (*candidate)[k]->elements->shape();
      if (!same) continue;
      for (size_t k = 0; k < groups[i].size(); ++k) (*candidate)[k]->elements = groups[i][k];
      taken += groups[i].size();
      candidate = nullptr;
      found = true;
      break;
    }
    if (!found)
      refuse_moments(
          *rank.file,
          fmt::format(
              "group {} of its {} parameters is neither all of the model's {} tensors, nor its {} matrices, nor its {} vectors "
              "in their order and shapes",
              i, groups[i].size(), all.size(), matrices.size(), vectors.size()));
  }
  if (taken != all.size()) refuse_moments(*rank.file, fmt::format("it holds {} of the model's {} tensors", taken, all.size()));
}

int64_t optimizer_steps(const TorchFile& f) {
  const Pickle& p = f.pickle();
  const auto optimizer = torch_optimizer(p);
  if (!optimizer) return 0;
  if (const auto all = p.find(*optimizer, "state"))
    if (const auto state = numbered(p, *all); !state.empty())
      if (const auto step = p.find(state.begin()->second, "step")) return updates_of(f, *step);
  const Pickle::Ref groups = *p.find(*optimizer, "param_groups");
  if (p.kind(groups) == Pickle::Kind::list && !p.items(groups).empty())
    if (const auto step = p.find(p.items(groups)[0], "step")) return updates_of(f, *step);
  return 0;
}

}  // namespace ravine
