#include "io/convert/deepspeed.h"

#include <algorithm>
#include <filesystem>
#include <regex>

#include "files/compressed.h"
#include "files/tokenizer_files.h"
#include "files/torch_file.h"
#include "io/convert/torch_elements.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

using File = std::shared_ptr<const TorchFile>;

Pickle::Ref need(const TorchFile& f, Pickle::Ref dict, const char* key) {
  const auto v = f.pickle().find(dict, key);
  if (!v) throw UserError("not a ZeRO checkpoint", f.path(), fmt::format("it must hold '{}'", key), kComplete);
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
  if (!fields) throw UserError("bad shapes", f.path(), "shapes of parameters are a dict", kComplete);
  std::vector<Named> out;
  for (size_t i = 0; i < fields->size(); i += 2) {
    const auto name = p.text((*fields)[i]);
    const Pickle::Ref sizes = (*fields)[i + 1];
    const std::string where = fmt::format("{}: shape of '{}'", f.path(), name ? printable(*name) : "?");
    if (!name || (p.kind(sizes) != Pickle::Kind::tuple && p.kind(sizes) != Pickle::Kind::list) || p.items(sizes).size() > 5)
      throw UserError("bad shapes", where, "a name and at most 5 sizes", kComplete);
    Named n{std::string(*name), {}};
    int64_t count = 1;
    for (Pickle::Ref s : p.items(sizes)) {
      const auto v = p.integer(s);
      if (!v || *v < 0 || __builtin_mul_overflow(count, *v, &count) || count > int64_t{1} << 48)
        throw UserError("bad shapes", where, "sizes are whole numbers, 2^48 elements in all at most", kComplete);
      n.shape.push_back(*v);
    }
    out.push_back(std::move(n));
  }
  return out;
}

struct Checkpoint {
  std::string folder;
  std::vector<File> optimizer, model;  // by data rank; one model file below stage 3
  int64_t stage = 0;
};

std::string tag_folder(const std::string& path) {
  if (!fs::exists(path + "/latest")) return path;
  std::string tag = read_whole(path + "/latest", 4096);
  tag.erase(tag.find_last_not_of(" \r\n\t") + 1);
  if (tag.empty() || tag.find('/') != std::string::npos || tag.starts_with('.'))
    throw UserError("bad file 'latest'", path + "/latest", fmt::format("it names a folder beside it, got '{}'", printable(tag)),
                    "correct it");
  if (!fs::is_directory(path + "/" + tag))
    throw UserError("missing folder", path + "/" + tag, fmt::format("{}/latest names it", path), kComplete);
  return path + "/" + tag;
}

Checkpoint open_checkpoint(const std::string& path) {
  Checkpoint c;
  c.folder = tag_folder(path);
  static const std::regex shard(".*?zero_pp_rank_(\\d{1,6})_mp_rank_(\\d{1,4})_(optim|model)_states\\.pt"),
      plain("mp_rank_(\\d{1,4})_model_states\\.pt");
  std::map<int64_t, std::string> optimizer, model;
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
    if (!(states ? model : optimizer).emplace(rank, entry.path().string()).second)
      throw UserError("two checkpoints in one folder", entry.path().string(),
                      fmt::format("rank {} has another file of that kind", rank), "remove one");
  }
  if (model.empty()) throw UserError("no model states", c.folder, "it must hold *_model_states.pt", kComplete);
  for (const auto& [rank, file] : model) c.model.push_back(std::make_shared<TorchFile>(file));
  for (const auto& [rank, file] : optimizer) c.optimizer.push_back(std::make_shared<TorchFile>(file));
  if (c.optimizer.empty()) return c;

  const auto ranks = static_cast<int64_t>(c.optimizer.size());
  for (const File& f : c.optimizer) {
    const Pickle& p = f->pickle();
    const Pickle::Ref state = need(*f, p.root(), "optimizer_state_dict");
    const int64_t stage = stage_of(p, need(*f, state, "zero_stage"));
    if (stage < 1 || stage > 3) throw UserError("not a ZeRO checkpoint", f->path(), "its zero_stage is 1, 2 or 3", kComplete);
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
                      fmt::format("{} says {} ranks, the folder holds {} optimizer files", f->path(), want, ranks), kComplete);
  }
  for (int64_t r = 0; r < ranks; ++r)
    if (!optimizer.contains(r))
      throw UserError("missing rank", c.folder, fmt::format("rank {} of {} has no optimizer file", r, ranks), kComplete);
  if (c.stage == 3 && static_cast<int64_t>(model.size()) != ranks)
    throw UserError("missing rank", c.folder,
                    fmt::format("{} ranks have optimizer files, {} have model files", ranks, model.size()), kComplete);
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

// The states of the torch optimizer inside, by group (stage 3: by sub-group), whether numbered in a dict or, as elastic
// checkpoints have them, in a list.
std::vector<Pickle::Ref> optimizer_states(const TorchFile& f, int64_t stage) {
  const Pickle& p = f.pickle();
  const Pickle::Ref own = need(f, p.root(), "optimizer_state_dict");
  const Pickle::Ref base = need(f, own, stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
  if (p.kind(base) == Pickle::Kind::list) return p.items(base);
  const Pickle::Ref state = need(f, base, "state");
  std::map<int64_t, Pickle::Ref> numbered;
  if (const auto* fields = p.fields(state))
    for (size_t i = 0; i < fields->size(); i += 2)
      if (const auto key = p.integer((*fields)[i])) numbered[*key] = (*fields)[i + 1];
  std::vector<Pickle::Ref> out;
  for (const auto& [key, value] : numbered) out.push_back(value);
  return out;
}

// Flat tensors of one rank, in order: masters, or moments, which lie as they do.
std::vector<ElementsPtr> flat_parts(const File& f, int64_t stage, StateKind kind) {
  const Pickle& p = f->pickle();
  std::vector<ElementsPtr> out;
  if (is_moment(kind)) {
    const char* key = kind == StateKind::first_moment ? "exp_avg" : "exp_avg_sq";
    for (Pickle::Ref state : optimizer_states(*f, stage)) {
      const auto v = p.find(state, key);
      if (!v)
        throw UserError("no moments", f->path(),
                        fmt::format("its optimizer keeps no '{}'; states of Adam and AdamW are read", key),
                        "leave out --optimizer");
      out.push_back(torch_elements(f, *v, fmt::format("{}[{}]", key, out.size())));
    }
    return out;
  }
  const char* key = stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
  const Pickle::Ref list = need(*f, need(*f, p.root(), "optimizer_state_dict"), key);
  const std::vector<Pickle::Ref> one{list};
  for (Pickle::Ref v : p.kind(list) == Pickle::Kind::list ? p.items(list) : one)
    out.push_back(torch_elements(f, v, fmt::format("{}[{}]", key, out.size())));
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
                    fmt::format("{} needs {} more elements", what, count), kComplete);
}

// Stages 1 and 2: each group of parameters is one flat vector, cut over the ranks.
void read_groups(const Checkpoint& c, Weights& w, StateKind kind) {
  const TorchFile& model = *c.model[0];
  const Pickle& p = model.pickle();
  const Pickle::Ref groups = need(model, p.root(), "param_shapes");
  if (p.kind(groups) != Pickle::Kind::list)
    throw UserError("bad shapes", model.path(), "param_shapes is a list of groups", kComplete);
  const int64_t align = 2 * static_cast<int64_t>(c.optimizer.size());
  std::vector<std::vector<ElementsPtr>> of_rank;
  for (const File& f : c.optimizer) of_rank.push_back(flat_parts(f, c.stage, kind));
  for (size_t g = 0; g < p.items(groups).size(); ++g) {
    std::vector<ElementsPtr> flat;
    int64_t all = 0, at = 0;
    for (size_t r = 0; r < of_rank.size(); ++r) {
      if (of_rank[r].size() != p.items(groups).size())
        throw UserError("ranks do not match", c.optimizer[r]->path(),
                        fmt::format("{} groups of parameters, it holds {}", p.items(groups).size(), of_rank[r].size()),
                        kComplete);
      flat.push_back(of_rank[r][g]);
      all += of_rank[r][g]->count();
    }
    for (const Named& n : shapes_of(model, p.items(groups)[g])) {
      std::vector<Copy> copies;
      take(flat, at, n.count(), 0, copies, fmt::format("'{}'", printable(n.name)));
      at += n.count();
      w.add(n.name, assembled(n.shape, std::move(copies), fmt::format("flat group {} of {} ranks", g, flat.size())));
    }
    if (round_up(at, align) != round_up(all, align))
      throw UserError("partitions do not fit", c.folder,
                      fmt::format("group {} has {} elements by its shapes and {} in its partitions", g, at, all), kComplete);
  }
}

// Stage 3: each parameter is cut over the ranks, ceil(count / ranks) elements each.
void read_partitioned(const Checkpoint& c, Weights& w, StateKind kind) {
  const TorchFile& model = *c.model[0];
  const Pickle& p = model.pickle();
  const Pickle::Ref groups = need(model, p.root(), "param_shapes");
  if (p.kind(groups) != Pickle::Kind::list)
    throw UserError("bad shapes", model.path(), "param_shapes is a list of groups", kComplete);
  const auto ranks = static_cast<int64_t>(c.optimizer.size());
  std::vector<std::vector<ElementsPtr>> of_rank;
  int64_t all = 0, at = 0;
  for (const File& f : c.optimizer) of_rank.push_back(flat_parts(f, c.stage, kind));
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
                    fmt::format("each rank has {} elements by the shapes and {} in its partition", at, all), kComplete);
}

void read_position(const Checkpoint& c, RunPosition& at) {
  const TorchFile& model = *c.model[0];
  auto number = [&](const char* key) {
    const auto v = optional(model, key);
    return v ? std::max<int64_t>(torch_whole_number(model, *v).value_or(0), 0) : 0;
  };
  at.step = number("global_steps");
  if (const int64_t samples = number("global_samples"); at.step > 0 && samples % at.step == 0)
    at.global_batch = samples / at.step;
  at.optimizer_steps = std::max<int64_t>(at.step - number("skipped_steps"), 0);
  if (c.stage == 0) return;
  const auto states = optimizer_states(*c.optimizer[0], c.stage);
  if (states.empty()) return;
  if (const auto v = c.optimizer[0]->pickle().find(states[0], "step"))
    at.optimizer_steps = torch_whole_number(*c.optimizer[0], *v).value_or(at.optimizer_steps);
}

// Parameters that are not trained lie in the model files, whole or (stage 3) cut over the ranks.
void read_frozen(const Checkpoint& c, Weights& w) {
  const auto shapes = optional(*c.model[0], "frozen_param_shapes");
  if (!shapes || !c.model[0]->pickle().fields(*shapes)) return;
  for (const Named& n : shapes_of(*c.model[0], *shapes)) {
    std::vector<ElementsPtr> parts;
    for (const File& f : c.model) {
      const auto fragments = optional(*f, "frozen_param_fragments");
      const auto part = fragments ? f->pickle().find(*fragments, n.name) : std::nullopt;
      if (!part)
        throw UserError("missing tensor", f->path(), fmt::format("frozen_param_fragments holds '{}'", printable(n.name)),
                        kComplete);
      parts.push_back(torch_elements(f, *part, n.name));
      if (c.stage < 3) break;
    }
    std::vector<Copy> copies;
    take(parts, 0, n.count(), 0, copies, fmt::format("'{}'", printable(n.name)));
    w.add(n.name, assembled(n.shape, std::move(copies), "frozen"));
  }
}

// Buffers as f32, and names that share a parameter.
void read_rest(const Checkpoint& c, Weights& w) {
  const TorchFile& model = *c.model[0];
  const Pickle& p = model.pickle();
  const Pickle::Ref module = need(model, p.root(), "module");
  if (const auto names = optional(model, "buffer_names"); names && p.kind(*names) == Pickle::Kind::list)
    for (Pickle::Ref v : p.items(*names)) {
      const auto name = p.text(v);
      const auto value = name ? p.find(module, *name) : std::nullopt;
      if (!value || !c.model[0]->is_tensor(*value)) continue;
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

}  // namespace

Weights read_deepspeed(const std::string& path, const Json& config, const std::string& config_where, StateKind kind) {
  const Checkpoint c = open_checkpoint(path);
  Weights w;
  w.config = config;
  w.config_where = config_where;
  for (const std::string& folder : {path, folder_of(c.folder)}) {
    const bool config_here = fs::exists(folder + "/config.json");
    if (w.folder.empty() && (config_here || has_tokenizer(folder))) w.folder = folder;
    if (w.config.is_null() && config_here) w.config = read_json(w.config_where = folder + "/config.json");
  }
  read_position(c, w.position);
  if (c.stage == 0) {
    if (is_moment(kind))
      throw UserError("no optimizer state", c.folder, "moments are read from checkpoints of ZeRO 1, 2 and 3",
                      "leave out --optimizer");
    const File& f = c.model[0];
    const auto state = std::make_shared<TorchStateFile>(f, need(*f, f->pickle().root(), "module"), "");
    for (const TensorInfo& t : state->tensors()) w.add(t.name, stored(state, t));
    return w;
  }
  if (c.stage == 3)
    read_partitioned(c, w, kind);
  else
    read_groups(c, w, kind);
  if (is_moment(kind)) return w;
  read_frozen(c, w);
  read_rest(c, w);
  return w;
}

}  // namespace ravine
