#include "io/convert/zero_files.h"

#include <algorithm>
#include <filesystem>
#include <regex>

#include "files/compressed.h"
#include "io/convert/torch_elements.h"

namespace fs = std::filesystem;

namespace ravine::zero {
namespace {

// Returns zero_stage, which is a number or an enumeration of one.
int64_t stage_of(const Pickle& p, Pickle::Ref v) {
  if (p.kind(v) == Pickle::Kind::object && p.global(p.items(v)[0]).ends_with(".ZeroStageEnum") &&
      p.kind(p.items(v)[1]) == Pickle::Kind::tuple && p.items(p.items(v)[1]).size() == 1)
    v = p.items(p.items(v)[1])[0];
  return p.integer(v).value_or(-1);
}

}  // namespace

Pickle::Ref need(const TorchFile& f, Pickle::Ref dict, const char* key) {
  const auto v = f.pickle().find(dict, key);
  if (!v) throw UserError("not a ZeRO checkpoint", f.path(), fmt::format("it must hold '{}'", key), kWholeCheckpoint);
  return *v;
}

std::optional<Pickle::Ref> optional(const TorchFile& f, const char* key) {
  const auto v = f.pickle().find(f.pickle().root(), key);
  return v && !f.pickle().is_none(*v) ? v : std::nullopt;
}

std::vector<Named> shapes_of(const TorchFile& f, Pickle::Ref dict) {
  const Pickle& p = f.pickle();
  const auto* fields = p.fields(dict);
  if (!fields) throw UserError("bad shapes", f.path(), "shapes of parameters must be a dict", kWholeCheckpoint);
  std::vector<Named> out;
  for (size_t i = 0; i < fields->size(); i += 2) {
    const auto name = p.text((*fields)[i]);
    const Pickle::Ref sizes = (*fields)[i + 1];
    const std::string where = fmt::format("{}: shape of '{}'", f.path(), name ? printable(*name) : "?");
    if (!name || (p.kind(sizes) != Pickle::Kind::tuple && p.kind(sizes) != Pickle::Kind::list) || p.items(sizes).size() > 5)
      throw UserError("bad shapes", where, "each entry must be a name and at most 5 sizes", kWholeCheckpoint);
    Named n{std::string(*name), {}};
    int64_t count = 1;
    for (Pickle::Ref s : p.items(sizes)) {
      const auto v = p.integer(s);
      if (!v || *v < 0 || __builtin_mul_overflow(count, *v, &count) || count > int64_t{1} << 48)
        throw UserError("bad shapes", where, "sizes must be whole numbers, with at most 2^48 elements in all",
                        kWholeCheckpoint);
      n.shape.push_back(*v);
    }
    out.push_back(std::move(n));
  }
  return out;
}

std::string tag_folder(const std::string& path) {
  for (const char* name : {"latest", "latest_universal"}) {
    const std::string file = path + "/" + name;
    if (!fs::exists(file)) continue;
    std::string tag = read_whole(file, 4096);
    tag.erase(tag.find_last_not_of(" \r\n\t") + 1);
    if (tag.empty() || tag.find('/') != std::string::npos || tag.starts_with('.'))
      throw UserError(fmt::format("bad file '{}'", name), file,
                      fmt::format("it must name a folder next to it, got '{}'", printable(tag)), "correct it");
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
    if (universal && states) {  // one file suffices, for any stage in its name
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
      throw UserError("not a ZeRO checkpoint", f->path(), "its zero_stage must be 1, 2 or 3", kWholeCheckpoint);
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

std::vector<Pickle::Ref> numbered_values(const Pickle& p, Pickle::Ref dict) {
  std::map<int64_t, Pickle::Ref> sorted;
  if (const auto* fields = p.fields(dict))
    for (size_t i = 0; i < fields->size(); i += 2)
      if (const auto key = p.integer((*fields)[i])) sorted[*key] = (*fields)[i + 1];
  std::vector<Pickle::Ref> out;
  for (const auto& [key, value] : sorted) out.push_back(value);
  return out;
}

// By sub-group in stage 3. The states are numbered in a dict, or in a list for elastic checkpoints.
std::vector<Pickle::Ref> optimizer_states(const TorchFile& f, int64_t stage) {
  const Pickle& p = f.pickle();
  const Pickle::Ref own = need(f, p.root(), "optimizer_state_dict");
  const Pickle::Ref base = need(f, own, stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
  if (p.kind(base) == Pickle::Kind::list) return p.items(base);
  return numbered_values(p, need(f, base, "state"));
}

std::optional<WholeOptimizer> whole_optimizer(const TorchFile& f) {
  const Pickle& p = f.pickle();
  const auto outer = optional(f, "optimizer");
  if (!outer || !p.fields(*outer)) return {};
  const auto inner = p.find(*outer, "optimizer_state_dict");
  WholeOptimizer out{inner ? *inner : *outer, p.find(*outer, "fp32_groups_flat")};
  if (!p.find(out.torch, "state") || !p.find(out.torch, "param_groups")) return {};
  return out;
}

}  // namespace ravine::zero
