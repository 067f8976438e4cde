#include "io/convert/zero_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "files/compressed.h"
#include "files/torch_file.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/torch_elements.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

using File = std::shared_ptr<const TorchFile>;
constexpr const char* kWholeCheckpoint = "use a complete checkpoint";

struct Tensors {
  std::map<std::string, ElementsPtr> tensors;
  void add(const std::string& name, const ElementsPtr& e) {
    if (!tensors.emplace(name, e).second)
      throw UserError("tensor is stored twice", e->where(), fmt::format("'{}' has one value", printable(name)),
                      kWholeCheckpoint);
  }
};

Pickle::Ref need(const TorchFile& f, Pickle::Ref dict, const char* key) {
  const auto v = f.pickle().find(dict, key);
  if (!v) throw UserError("not a ZeRO checkpoint", f.path(), fmt::format("it must hold '{}'", key), kWholeCheckpoint);
  return *v;
}

std::optional<Pickle::Ref> optional(const TorchFile& f, const char* key) {
  const auto v = f.pickle().find(f.pickle().root(), key);
  return v && !f.pickle().is_none(*v) ? v : std::nullopt;
}

// zero_stage is a number, or an enumeration made of one.
int64_t stage_of(const Pickle& p, Pickle::Ref v) {
  if (p.kind(v) == Pickle::Kind::object && p.global(p.items(v)[0]).ends_with(".ZeroStageEnum") &&
      p.kind(p.items(v)[1]) == Pickle::Kind::tuple && p.items(p.items(v)[1]).size() == 1)
    v = p.items(p.items(v)[1])[0];
  return p.integer(v).value_or(-1);
}

struct Named {
  std::string name;
  Shape shape;
  int64_t count() const { return shape.count(); }
};

// A dict of names and shapes, in order.
std::vector<Named> shapes_of(const TorchFile& f, Pickle::Ref dict) {
  const Pickle& p = f.pickle();
  const auto* fields = p.fields(dict);
  if (!fields) throw UserError("bad shapes", f.path(), "shapes of parameters are a dict", kWholeCheckpoint);
  std::vector<Named> out;
  for (size_t i = 0; i < fields->size(); i += 2) {
    const auto name = p.text((*fields)[i]);
    const Pickle::Ref sizes = (*fields)[i + 1];
    const std::string where = fmt::format("{}: shape of '{}'", f.path(), name ? printable(*name) : "?");
    if (!name || (p.kind(sizes) != Pickle::Kind::tuple && p.kind(sizes) != Pickle::Kind::list) || p.items(sizes).size() > 5)
      throw UserError("bad shapes", where, "a name and at most 5 sizes", kWholeCheckpoint);
    Named n{std::string(*name), {}};
    int64_t count = 1;
    for (Pickle::Ref s : p.items(sizes)) {
      const auto v = p.integer(s);
      if (!v || *v < 0 || __builtin_mul_overflow(count, *v, &count) || count > int64_t{1} << 48)
        throw UserError("bad shapes", where, "sizes are whole numbers, 2^48 elements in all at most", kWholeCheckpoint);
      n.shape.push_back(*v);
    }
    out.push_back(std::move(n));
  }
  return out;
}

struct StateFiles {
  std::string folder;
  std::vector<File> optimizer, model;  // by data rank; one model file below stage 3
  int64_t stage = 0;
  File universal;  // zero/optimizer_state.pt; null: not a universal checkpoint
};

std::string tag_folder(const std::string& path) {
  for (const char* name : {"latest", "latest_universal"}) {
    const std::string file = path + "/" + name;
    if (!fs::exists(file)) continue;
    std::string tag = read_whole(file, 4096);
    tag.erase(tag.find_last_not_of(" \r\n\t") + 1);
    if (tag.empty() || tag.find('/') != std::string::npos || tag.starts_with('.'))
      throw UserError(fmt::format("bad file '{}'", name), file,
                      fmt::format("it names a folder beside it, got '{}'", printable(tag)), "correct it");
    if (!fs::is_directory(path + "/" + tag))
      throw UserError("missing folder", path + "/" + tag, fmt::format("{} names it", file), kWholeCheckpoint);
    return path + "/" + tag;
  }
  return path;
}

StateFiles open_state_files(const std::string& path) {
  StateFiles c;
  c.folder = tag_folder(path);
  static const std::regex shard(".*?zero_pp_rank_(\\d{1,6})_mp_rank_(\\d{1,4})_(optim|model)_states\\.pt"),
      plain("mp_rank_(\\d{1,4})_model_states\\.pt");
  std::map<int64_t, std::string> optimizer, model;
  const bool universal = fs::is_directory(c.folder + "/zero");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(c.folder, error)) {
    const std::string name = entry.path().filename().string();
    std::smatch m;
    int64_t rank = 0, tensor = 0;
    bool states = true;
    if (std::regex_match(name, m, shard)) {
      rank = std::stoll(m[1]), tensor = std::stoll(m[2]), states = m[3] == "model";
    } else if (std::regex_match(name, m, plain)) {
      tensor = std::stoll(m[1]);
    } else if (name.find("expert") != std::string::npos && name.ends_with("_states.pt")) {
      throw UserError("layout not supported", entry.path().string(), "checkpoints of experts are not read",
                      "consolidate it with DeepSpeed first");
    } else {
      continue;
    }
    if (tensor != 0)
      throw UserError("layout not supported", entry.path().string(), "ZeRO shards of several model-parallel ranks are not read",
                      "consolidate it with DeepSpeed first");
    if (universal && states) {  // one says all, whatever the stage that its name is for
      if (rank == 0 && (model.empty() || entry.path().string() < model[0])) model[0] = entry.path().string();
      continue;
    }
    if (!(states ? model : optimizer).emplace(rank, entry.path().string()).second)
      throw UserError("two checkpoints in one folder", entry.path().string(),
                      fmt::format("rank {} has another file of that kind", rank), "remove one");
  }
  if (model.empty()) throw UserError("no model states", c.folder, "it must hold *_model_states.pt", kWholeCheckpoint);
  for (const auto& [rank, file] : model) c.model.push_back(std::make_shared<TorchFile>(file));
  if (universal) {
    c.universal = std::make_shared<TorchFile>(c.folder + "/zero/optimizer_state.pt");
    return c;
  }
  for (const auto& [rank, file] : optimizer) c.optimizer.push_back(std::make_shared<TorchFile>(file));
  if (c.optimizer.empty()) return c;

  const auto ranks = static_cast<int64_t>(c.optimizer.size());
  for (const File& f : c.optimizer) {
    const Pickle& p = f->pickle();
    const Pickle::Ref state = need(*f, p.root(), "optimizer_state_dict");
    const int64_t stage = stage_of(p, need(*f, state, "zero_stage"));
    if (stage < 1 || stage > 3)
      throw UserError("not a ZeRO checkpoint", f->path(), "its zero_stage is 1, 2 or 3", kWholeCheckpoint);
    if (c.stage != 0 && stage != c.stage)
      throw UserError("ranks of two runs", f->path(), fmt::format("its zero_stage is {}, others have {}", stage, c.stage),
                      "use files of one checkpoint");
    c.stage = stage;
    const Pickle::Ref count = need(*f, state, "partition_count");  // a number, or one per group
    int64_t want = p.integer(count).value_or(0);
    if (p.kind(count) == Pickle::Kind::list)
      for (Pickle::Ref v : p.items(count)) want = std::max(want, p.integer(v).value_or(0));
    if (want != ranks)
      throw UserError("missing rank", c.folder,
                      fmt::format("{} says {} ranks, the folder holds {} optimizer files", f->path(), want, ranks),
                      kWholeCheckpoint);
  }
  for (int64_t r = 0; r < ranks; ++r)
    if (!optimizer.contains(r))
      throw UserError("missing rank", c.folder, fmt::format("rank {} of {} has no optimizer file", r, ranks), kWholeCheckpoint);
  if (c.stage == 3 && static_cast<int64_t>(model.size()) != ranks)
    throw UserError("missing rank", c.folder,
                    fmt::format("{} ranks have optimizer files, {} have model files", ranks, model.size()), kWholeCheckpoint);
  auto step = [](const File& f) {
    const auto v = f->pickle().find(f->pickle().root(), "global_steps");
    return v ? f->pickle().integer(*v).value_or(-1) : -1;
  };
  for (const File& f : c.model)
    if (step(f) != step(c.model[0]))
      throw UserError("ranks of different steps", f->path(),
                      fmt::format("its step is {}, that of {} is {}", step(f), c.model[0]->path(), step(c.model[0])),
                      "use files of one checkpoint");
  return c;
}

// The values of a dict whose keys are numbers, by these.
std::vector<Pickle::Ref> numbered_values(const Pickle& p, Pickle::Ref dict) {
  std::map<int64_t, Pickle::Ref> sorted;
  if (const auto* fields = p.fields(dict))
    for (size_t i = 0; i < fields->size(); i += 2)
      if (const auto key = p.integer((*fields)[i])) sorted[*key] = (*fields)[i + 1];
  std::vector<Pickle::Ref> out;
  for (const auto& [key, value] : sorted) out.push_back(value);
  return out;
}

// The states of the torch optimizer inside, by group (stage 3: by sub-group), whether numbered in a dict or, as elastic
// checkpoints have them, in a list.
std::vector<Pickle::Ref> optimizer_states(const TorchFile& f, int64_t stage) {
  const Pickle& p = f.pickle();
  const Pickle::Ref own = need(f, p.root(), "optimizer_state_dict");
  const Pickle::Ref base = need(f, own, stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
  if (p.kind(base) == Pickle::Kind::list) return p.items(base);
  return numbered_values(p, need(f, base, "state"));
}

ElementsPtr state_of(const File& f, Pickle::Ref state, const std::string& key, const std::string& name) {
  const auto v = f->pickle().find(state, key);
  if (!v)
    throw UserError("no moments", f->path(), fmt::format("its optimizer keeps no '{}' of {}", key, printable(name)),
                    "leave out --optimizer, or begin with its weights");
  return torch_elements(f, *v, fmt::format("{} of {}", key, name));
}

// Flat tensors of one rank, in order: masters (no key), or states, which lie as they do.
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

// Elements [begin, begin + count) of parts in a row, as copies to element `to`.
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

// Elements of padding behind each parameter of a group (parameter_alignment); nothing: there are none.
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

// Stages 1 and 2: each group of parameters is one flat vector, cut over the ranks.
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

// Stage 3: each parameter is cut over the ranks, ceil(count / ranks) elements each.
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

// Stage 0: what the module's file holds of the optimizer. That of torch has states per parameter, by numbers; of runs in 16
// bits (FP16_Optimizer) there are flat groups.
struct WholeOptimizer {
  Pickle::Ref torch;                // "state", "param_groups"
  std::optional<Pickle::Ref> flat;  // fp32_groups_flat
};
std::optional<WholeOptimizer> whole_optimizer(const TorchFile& f) {
  const Pickle& p = f.pickle();
  const auto outer = optional(f, "optimizer");
  if (!outer || !p.fields(*outer)) return {};
  const auto inner = p.find(*outer, "optimizer_state_dict");
  WholeOptimizer out{inner ? *inner : *outer, p.find(*outer, "fp32_groups_flat")};
  if (!p.find(out.torch, "state") || !p.find(out.torch, "param_groups")) return {};
  return out;
}

// Stage 0: the module's parameters in their order. Buffers and further names of a parameter are left out.
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

// Stage 0: states or flat masters under the names of parameters. Groups have no names: one is all parameters, the matrices
// (those that decay), or the rest, whichever has its shapes (of flat ones: its count).
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
                      "save it with ZeRO 1, 2 or 3, which says the names");
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
  std::map<std::string, Shape> shapes;  // those of stage 3 are flat
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

// The state of a loss scale, from the fields of DeepSpeed's scaler (an object whose class is not looked at) or of its
// FP16_Optimizer. Null: it does not move.
Json loss_scale_of(const Pickle& p, std::optional<Pickle::Ref> v) {
  if (v && p.kind(*v) == Pickle::Kind::object) v = p.items(*v).size() > 2 ? std::optional(p.items(*v)[2]) : std::nullopt;
  if (!v || !p.fields(*v)) return Json();
  const auto number = [&](const char* key) { return p.find(*v, key); };
  const auto scale = number("cur_scale"), step = number("cur_iter"), last = number("last_overflow_iter"),
             hysteresis = number("cur_hysteresis");
  if (!scale || !step || !last || !p.real(*scale) || !p.integer(*step) || !p.integer(*last)) return Json();
  return {{"scale", *p.real(*scale)},
          {"step", *p.integer(*step)},
          {"last_overflow", *p.integer(*last)},
          {"hysteresis", hysteresis ? p.integer(*hysteresis).value_or(1) : 1}};
}

// The states of all groups or parameters, and the file that they are in.
std::vector<Pickle::Ref> all_states(const StateFiles& c, const TorchFile*& f) {
  f = c.universal ? c.universal.get() : c.stage == 0 ? c.model[0].get() : c.optimizer[0].get();
  if (c.stage > 0) return optimizer_states(*f, c.stage);
  if (c.universal) {
    const auto inner = optional(*f, "optimizer_state_dict");
    const auto state = inner ? f->pickle().find(*inner, "state") : std::nullopt;
    return state ? numbered_values(f->pickle(), *state) : std::vector<Pickle::Ref>();
  }
  const auto whole = whole_optimizer(*f);
  return whole ? numbered_values(f->pickle(), need(*f, whole->torch, "state")) : std::vector<Pickle::Ref>();
}

// The count of updates in the states of a file. FusedAdam counts in the state of the last parameter of a group only; the others
// say 0 for ever.
std::optional<int64_t> updates_in(const TorchFile& f, const std::vector<Pickle::Ref>& states) {
  std::optional<int64_t> out;
  for (Pickle::Ref state : states)
    if (const auto v = f.pickle().find(state, "step"))
      if (const auto n = torch_whole_number(f, *v)) out = std::max(out.value_or(0), *n);
  return out;
}

ZeroRun run_of(const StateFiles& c) {
  ZeroRun run;
  run.folder = c.folder;
  const TorchFile& model = *c.model[0];
  auto number = [&](const char* key) {
    const auto v = optional(model, key);
    return v ? std::max<int64_t>(torch_whole_number(model, *v).value_or(0), 0) : 0;
  };
  run.steps = number("global_steps"), run.skipped = std::min(number("skipped_steps"), run.steps);
  run.samples = number("global_samples");
  run.updates = run.steps - run.skipped;
  const TorchFile* f = nullptr;
  if (const std::vector<Pickle::Ref> states = all_states(c, f); !states.empty()) {
    const Pickle& p = f->pickle();
    const std::optional<int64_t> step = updates_in(*f, states);
    for (size_t r = 1; c.stage > 0 && !c.universal && r < c.optimizer.size(); ++r)
      if (const auto other = updates_in(*c.optimizer[r], optimizer_states(*c.optimizer[r], c.stage)); other != step)
        throw UserError(
            "ranks of different steps", c.optimizer[r]->path(),
            fmt::format("its states have seen {} updates, those of {} {}", other.value_or(0), f->path(), step.value_or(0)),
            "use files of one checkpoint");
    run.updates = step.value_or(run.updates);
    const auto* fields = p.fields(states[0]);
    for (size_t i = 0; fields && i < fields->size(); i += 2)
      if (const auto key = p.text((*fields)[i]); key && *key != "step" && f->is_tensor((*fields)[i + 1]))
        run.states.emplace_back(*key);
  }
  if (c.universal) {
    std::set<std::string> states;
    for (const auto& entry : fs::directory_iterator(c.folder + "/zero")) {
      std::error_code error;
      for (const auto& file : fs::directory_iterator(entry.path(), error))
        if (const std::string stem = file.path().stem().string();
            file.path().extension() == ".pt" && stem != "fp32" && stem != "step")
          states.insert(stem);
    }
    run.states.assign(states.begin(), states.end());
    std::optional<int64_t> counted;
    for (const auto& entry : fs::directory_iterator(c.folder + "/zero")) {
      const std::string path = entry.path().string() + "/step.pt";
      if (!fs::exists(path)) continue;
      const TorchFile file(path);
      const auto step = torch_whole_number(file, file.pickle().root());
      if (!step || (counted && *counted != *step))
        throw UserError("parameters of different steps", path, "it is the count of updates, the same for all parameters",
                        "use files of one checkpoint");
      counted = step;
    }
    run.updates = counted.value_or(run.updates);
  }
  if (run.updates < 0) run.updates = 0;
  const Pickle& p = model.pickle();
  if (const auto v = optional(model, "lr_scheduler")) run.lr_scheduler = plain_values(p, *v);
  run.kept = kept_scalars_in(p);
  if (c.universal)
    run.loss_scale = loss_scale_of(c.universal->pickle(), optional(*c.universal, "loss_scaler"));
  else if (c.stage == 0)
    run.loss_scale = loss_scale_of(p, optional(model, "optimizer"));
  else
    run.loss_scale =
        loss_scale_of(c.optimizer[0]->pickle(),
                      c.optimizer[0]->pickle().find(
                          need(*c.optimizer[0], c.optimizer[0]->pickle().root(), "optimizer_state_dict"), "loss_scaler"));
  return run;
}

// Parameters that are not trained lie in the model files, whole or (stage 3) cut over the ranks.
void read_frozen(const StateFiles& c, Tensors& w) {
  const auto shapes = optional(*c.model[0], "frozen_param_shapes");
  if (!shapes || !c.model[0]->pickle().fields(*shapes)) return;
  for (const Named& n : shapes_of(*c.model[0], *shapes)) {
    if (c.universal && w.tensors.contains(n.name)) continue;  // those of stages 1 and 2 hold them among the others
    std::vector<ElementsPtr> parts;
    for (const File& f : c.model) {
      const auto fragments = optional(*f, "frozen_param_fragments");
      const auto part = fragments ? f->pickle().find(*fragments, n.name) : std::nullopt;
      if (!part)
        throw UserError("missing tensor", f->path(), fmt::format("frozen_param_fragments holds '{}'", printable(n.name)),
                        kWholeCheckpoint);
      parts.push_back(torch_elements(f, *part, n.name));
      if (c.stage < 3) break;
    }
    std::vector<Copy> copies;
    take(parts, 0, n.count(), 0, copies, fmt::format("'{}'", printable(n.name)));
    w.add(n.name, assembled(n.shape, std::move(copies), "frozen"));
  }
}

// Buffers as f32, and names that share a parameter.
void read_rest(const StateFiles& c, Tensors& w) {
  const TorchFile& model = *c.model[0];
  const Pickle& p = model.pickle();
  const Pickle::Ref module = need(model, p.root(), "module");
  if (const auto names = optional(model, "buffer_names"); names && p.kind(*names) == Pickle::Kind::list)
    for (Pickle::Ref v : p.items(*names)) {
      const auto name = p.text(v);
      const auto value = name ? p.find(module, *name) : std::nullopt;
      if (!value || !c.model[0]->is_tensor(*value) || (c.universal && w.tensors.contains(std::string(*name)))) continue;
      const ElementsPtr e = torch_elements(c.model[0], *value, std::string(*name));
      w.add(std::string(*name), as_type(e, DType::f32));
    }
  if (const auto shared = optional(model, "shared_params"); shared && p.fields(*shared))
    for (size_t i = 0; i < p.fields(*shared)->size(); i += 2) {
      const auto alias = p.text((*p.fields(*shared))[i]), source = p.text((*p.fields(*shared))[i + 1]);
      if (!alias || !source || !w.tensors.contains(std::string(*source)) || w.tensors.contains(std::string(*alias))) continue;
      w.add(std::string(*alias), w.tensors[std::string(*source)]);
    }
}

// Masters (no key) or a state, as far as the optimizer has them.
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

}  // namespace

std::map<std::string, ElementsPtr> read_zero_weights(const std::string& path) {
  const StateFiles c = open_state_files(path);
  Tensors w;
  const File& f = c.model[0];
  if (c.universal || c.stage > 0) {
    read_trained(c, w, "");
    read_frozen(c, w);
    read_rest(c, w);
    return w.tensors;
  }
  if (const auto whole = whole_optimizer(*f); whole && whole->flat) read_whole_optimizer(c, w, "");
  const Pickle::Ref module = need(*f, f->pickle().root(), "module");
  const auto state = std::make_shared<TorchStateFile>(f, module, "");
  std::map<std::pair<int64_t, int64_t>, std::string> first;  // the name of each storage; a tied head is no tensor of its own
  for (const TensorInfo& t : state->tensors()) {
    const auto v = f->pickle().find(module, t.name);
    if (w.tensors.contains(t.name) && v) {
      const TorchTensor at = f->tensor(*v, t.name);
      first.emplace(std::pair(at.storage_begin, at.offset), t.name);
    }
  }
  for (const TensorInfo& t : state->tensors()) {
    if (w.tensors.contains(t.name)) continue;
    const auto v = f->pickle().find(module, t.name);
    auto it = first.end();
    if (v) {
      const TorchTensor at = f->tensor(*v, t.name);
      it = first.find({at.storage_begin, at.offset});
    }
    w.add(t.name, it != first.end() ? w.tensors.at(it->second) : stored(state, t));
  }
  return w.tensors;
}

std::map<std::string, ElementsPtr> read_zero_state(const std::string& path, const std::string& key) {
  Tensors w;
  read_trained(open_state_files(path), w, key);
  return w.tensors;
}

ZeroRun read_zero_run(const std::string& path) { return run_of(open_state_files(path)); }

bool is_zero_checkpoint(const std::string& path) {
  std::error_code error;
  const auto holds = [&](const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().filename().string().ends_with("_model_states.pt")) return true;
    return false;
  };
  if (holds(path)) return true;
  if (!fs::exists(path + "/latest", error) && !fs::exists(path + "/latest_universal", error)) return false;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_directory(error) && holds(entry.path())) return true;
  return false;
}

std::vector<std::string> zero_checkpoint_files(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(tag_folder(path)))
    if (entry.is_regular_file() && entry.path().extension() == ".pt") out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace ravine
