// Reads the trained tensors of ZeRO, masters or states, by the names of parameters. Formats: flat groups of stages 1
// and 2, partitions of stage 3, the whole optimizer of stage 0, and universal folders.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "files/compressed.h"
#include "io/convert/torch_elements.h"
#include "io/convert/zero_files.h"

namespace fs = std::filesystem;

namespace ravine::zero {
namespace {

ElementsPtr state_of(const File& f, Pickle::Ref state, const std::string& key, const std::string& name) {
  const auto v = f->pickle().find(state, key);
  if (!v)
    throw UserError("no moments", f->path(), fmt::format("its optimizer keeps no '{}' of {}", key, printable(name)),
                    "leave out --optimizer, or begin with its weights");
  return torch_elements(f, *v, fmt::format("{} of {}", key, name));
}

// Returns the flat tensors of one rank, in order: masters (empty key), or states, which have the same layout.
std::vector<ElementsPtr> flat_parts(const File& f, int64_t stage, const std::string& key) {
  const Pickle& p = f->pickle();
  std::vector<ElementsPtr> out;
  if (!key.empty()) {
    for (Pickle::Ref state : optimizer_states(*f, stage))
      out.push_back(state_of(f, state, key, fmt::format("group {}", out.size())));
    return out;
  }
  const char* masters = stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
  const Pickle::Ref list = need(*f, need(*f, p.root(), "optimizer_state_dict"), masters);
  const std::vector<Pickle::Ref> one{list};
  for (Pickle::Ref v : p.kind(list) == Pickle::Kind::list ? p.items(list) : one)
    out.push_back(torch_elements(f, v, fmt::format("{}[{}]", masters, out.size())));
  return out;
}

// Returns the padding elements after each parameter of a group (parameter_alignment); all 0 if none are recorded.
std::vector<int64_t> paddings_behind(const TorchFile& f, size_t group, size_t params) {
  const Pickle& p = f.pickle();
  const auto all = p.find(need(f, p.root(), "optimizer_state_dict"), "param_alignment_paddings");
  if (!all || p.is_none(*all)) return std::vector<int64_t>(params);
  const auto bad = [&] {
    return UserError(
        "bad paddings", f.path(),
        fmt::format("param_alignment_paddings holds a whole number for each of {} parameters of group {}", params, group),
        kWholeCheckpoint);
  };
  if (p.kind(*all) != Pickle::Kind::list || group >= p.items(*all).size()) throw bad();
  const Pickle::Ref list = p.items(*all)[group];
  if (p.kind(list) != Pickle::Kind::list || p.items(list).size() != params) throw bad();
  std::vector<int64_t> out;
  for (Pickle::Ref v : p.items(list)) {
    const auto n = p.integer(v);
    if (!n || *n < 0 || *n > 4096) throw bad();
    out.push_back(*n);
  }
  return out;
}

// Stages 1 and 2: each group of parameters is one flat vector, split over the ranks.
void read_groups(const StateFiles& c, Tensors& w, const std::string& key) {
  const TorchFile& model = *c.model[0];
  const Pickle& p = model.pickle();
  const Pickle::Ref groups = need(model, p.root(), "param_shapes");
  if (p.kind(groups) != Pickle::Kind::list)
    throw UserError("bad shapes", model.path(), "param_shapes is a list of groups", kWholeCheckpoint);
  const int64_t align = 2 * static_cast<int64_t>(c.optimizer.size());
  std::vector<std::vector<ElementsPtr>> of_rank;
  for (const File& f : c.optimizer) of_rank.push_back(flat_parts(f, c.stage, key));
  for (size_t g = 0; g < p.items(groups).size(); ++g) {
    std::vector<ElementsPtr> flat;
    int64_t all = 0, at = 0;
    for (size_t r = 0; r < of_rank.size(); ++r) {
      if (of_rank[r].size() != p.items(groups).size())
        throw UserError("ranks do not match", c.optimizer[r]->path(),
                        fmt::format("{} groups of parameters, it holds {}", p.items(groups).size(), of_rank[r].size()),
                        kWholeCheckpoint);
      flat.push_back(of_rank[r][g]);
      all += of_rank[r][g]->count();
    }
    const std::vector<Named> params = shapes_of(model, p.items(groups)[g]);
    const std::vector<int64_t> behind = paddings_behind(*c.optimizer[0], g, params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      const Named& n = params[i];
      std::vector<Copy> copies;
      take(flat, at, n.count(), 0, copies, fmt::format("'{}'", printable(n.name)));
      at += n.count() + behind[i];
      w.add(n.name, assembled(n.shape, std::move(copies), fmt::format("flat group {} of {} ranks", g, flat.size())));
    }
    if (round_up(at, align) != round_up(all, align))
      throw UserError("partitions do not fit", c.folder,
                      fmt::format("group {} has {} elements by its shapes and {} in its partitions", g, at, all),
                      kWholeCheckpoint);
  }
}

// Stage 3: each parameter is split over the ranks, ceil(count / ranks) elements each.
void read_partitioned(const StateFiles& c, Tensors& w, const std::string& key) {
  const TorchFile& model = *c.model[0];
  const Pickle& p = model.pickle();
  const Pickle::Ref groups = need(model, p.root(), "param_shapes");
  if (p.kind(groups) != Pickle::Kind::list)
    throw UserError("bad shapes", model.path(), "param_shapes is a list of groups", kWholeCheckpoint);
  const auto ranks = static_cast<int64_t>(c.optimizer.size());
  std::vector<std::vector<ElementsPtr>> of_rank;
  int64_t all = 0, at = 0;
  for (const File& f : c.optimizer) of_rank.push_back(flat_parts(f, c.stage, key));
  for (const ElementsPtr& e : of_rank[0]) all += e->count();
  for (Pickle::Ref group : p.items(groups))
    for (const Named& n : shapes_of(model, group)) {
      const int64_t per = ceil_div(n.count(), ranks);
      std::vector<Copy> copies;
      for (int64_t r = 0; r < ranks; ++r)
        take(of_rank[static_cast<size_t>(r)], at, std::clamp<int64_t>(n.count() - r * per, 0, per), r * per, copies,
             fmt::format("'{}'", printable(n.name)));
      at += per;
      w.add(n.name, assembled(n.shape, std::move(copies), fmt::format("partitions of {} ranks", ranks)));
    }
  if (at != all)
    throw UserError("partitions do not fit", c.folder,
                    fmt::format("each rank has {} elements by the shapes and {} in its partition", at, all), kWholeCheckpoint);
}

// Stage 0: returns the module's parameters in order, without buffers and aliases.
std::vector<Named> module_params(const TorchFile& f) {
  const Pickle& p = f.pickle();
  std::set<std::string> buffers;
  if (const auto names = optional(f, "buffer_names"); names && p.kind(*names) == Pickle::Kind::list)
    for (Pickle::Ref v : p.items(*names))
      if (const auto name = p.text(v)) buffers.emplace(*name);
  std::vector<Named> out;
  std::set<std::pair<int64_t, int64_t>> seen;
  const auto* fields = p.fields(need(f, p.root(), "module"));
  for (size_t i = 0; fields && i < fields->size(); i += 2) {
    const auto name = p.text((*fields)[i]);
    if (!name || buffers.contains(std::string(*name)) || !f.is_tensor((*fields)[i + 1])) continue;
    const TorchTensor t = f.tensor((*fields)[i + 1], std::string(*name));
    if (t.shape.count() > 0 && seen.emplace(t.storage_begin, t.offset).second) out.push_back({std::string(*name), t.shape});
  }
  return out;
}

// Stage 0: adds states or flat masters under the names of parameters. Groups have no names: a group is all parameters,
// the matrices (which decay), or the others. The shapes of a group identify it; for a flat group, its count.
void read_whole_optimizer(const StateFiles& c, Tensors& w, const std::string& key) {
  const File& f = c.model[0];
  const Pickle& p = f->pickle();
  const auto optimizer = whole_optimizer(*f);
  if (!optimizer)
    throw UserError("no optimizer state", f->path(), "it must hold 'optimizer' with 'state' and 'param_groups'",
                    "leave out --optimizer, or begin with its weights");
  std::vector<Named> all = module_params(*f), kinds[2];
  for (const Named& n : all) kinds[n.shape.rank() > 1 ? 0 : 1].push_back(n);
  std::vector<const std::vector<Named>*> free{&all, &kinds[0], &kinds[1]};
  std::vector<std::vector<ElementsPtr>> groups;
  const std::vector<Pickle::Ref> states = numbered_values(p, need(*f, optimizer->torch, "state"));
  if (optimizer->flat) {
    const auto flat = key.empty() && p.kind(*optimizer->flat) == Pickle::Kind::list ? p.items(*optimizer->flat) : states;
    for (Pickle::Ref v : flat) {
      const std::string name = fmt::format("group {}", groups.size());
      groups.push_back({key.empty() ? torch_elements(f, v, "fp32_groups_flat of " + name) : state_of(f, v, key, name)});
    }
  } else {
    const Pickle::Ref list = need(*f, optimizer->torch, "param_groups");
    if (p.kind(list) != Pickle::Kind::list)
      throw UserError("bad optimizer", f->path(), "param_groups is a list", kWholeCheckpoint);
    size_t at = 0;
    for (Pickle::Ref group : p.items(list)) {
      const Pickle::Ref params = need(*f, group, "params");
      auto& to = groups.emplace_back();
      for (size_t i = 0; p.kind(params) == Pickle::Kind::list && i < p.items(params).size(); ++i, ++at) {
        if (at >= states.size())
          throw UserError("no moments", f->path(), fmt::format("it has states of {} parameters, param_groups names more", at),
                          kWholeCheckpoint);
        to.push_back(state_of(f, states[at], key, fmt::format("parameter {}", at)));
      }
    }
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto& parts = groups[g];
    if (parts.empty()) continue;
    const auto fits = [&](const std::vector<Named>& params) {
      if (optimizer->flat) {
        int64_t count = 0;
        for (const Named& n : params) count += n.count();
        return count == parts[0]->count();
      }
      if (params.size() != parts.size()) return false;
      for (size_t i = 0; i < params.size(); ++i)
        if (!(params[i].shape == parts[i]->shape())) return false;
      return true;
    };
    const auto found = std::find_if(free.begin(), free.end(), [&](const auto* params) { return params && fits(*params); });
    if (found == free.end())
      throw UserError("optimizer state does not fit", f->path(),
                      fmt::format("group {} is neither all {} parameters of the module, nor its {} matrices, nor its {} others",
                                  g, all.size(), kinds[0].size(), kinds[1].size()),
                      "save it with ZeRO 1, 2 or 3, which stores the names");
    int64_t at = 0;
    for (size_t i = 0; i < (*found)->size(); ++i) {
      const Named& n = (**found)[i];
      if (!optimizer->flat) {
        w.add(n.name, parts[i]);
        continue;
      }
      std::vector<Copy> copies;
      take(parts, at, n.count(), 0, copies, fmt::format("'{}'", printable(n.name)));
      at += n.count();
      w.add(n.name, assembled(n.shape, std::move(copies), fmt::format("flat group {}", g)));
    }
    *found = nullptr;
  }
}

// Universal checkpoints: zero/NAME/fp32.pt and a file for each state.
void read_universal(const StateFiles& c, Tensors& w, const std::string& key) {
  const TorchFile& model = *c.model[0];
  std::map<std::string, Shape> shapes;  // tensors of stage 3 are flat
  if (const auto groups = optional(model, "param_shapes"); groups && model.pickle().kind(*groups) == Pickle::Kind::list)
    for (Pickle::Ref group : model.pickle().items(*groups))
      for (const Named& n : shapes_of(model, group)) shapes.emplace(n.name, n.shape);
  const std::string zero = c.folder + "/zero", stem = key.empty() ? "fp32" : key;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(zero))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}/{}.pt", zero, name, stem);
    if (!fs::exists(path)) {
      if (!key.empty()) continue;  // never trained
      throw UserError("missing file", path, "each folder in zero/ holds the f32 values of its parameter", kWholeCheckpoint);
    }
    const File f = std::make_shared<TorchFile>(path);
    const Pickle& p = f->pickle();
    const auto inner = p.find(p.root(), "param");
    ElementsPtr e = torch_elements(f, inner ? *inner : p.root(), name);
    if (const auto it = shapes.find(name); it != shapes.end() && !(it->second == e->shape())) {
      if (it->second.count() != e->count())
        throw UserError(
            "misshapen tensor", path,
            fmt::format("param_shapes makes '{}' {}, it has {} elements", printable(name), it->second.text(), e->count()),
            kWholeCheckpoint);
      e = reshaped(e, it->second);
    }
    w.add(name, as_type(e, DType::f32));
  }
}

}  // namespace

void take(const std::vector<ElementsPtr>& parts, int64_t begin, int64_t count, int64_t to, std::vector<Copy>& copies,
          const std::string& what) {
  for (const ElementsPtr& p : parts) {
    if (count == 0) return;
    if (begin >= p->count()) {
      begin -= p->count();
      continue;
    }
    const int64_t n = std::min(count, p->count() - begin);
    copies.push_back({p, begin, 0, to, 0, 1, n});
    begin = 0, to += n, count -= n;
  }
  if (count > 0)
    throw UserError("partitions are too short", parts.empty() ? what : parts.back()->where(),
                    fmt::format("{} needs {} more elements", what, count), kWholeCheckpoint);
}

void read_trained(const StateFiles& c, Tensors& w, const std::string& key) {
  if (c.universal)
    read_universal(c, w, key);
  else if (c.stage == 0)
    read_whole_optimizer(c, w, key);
  else if (c.stage == 3)
    read_partitioned(c, w, key);
  else
    read_groups(c, w, key);
}

}  // namespace ravine::zero
