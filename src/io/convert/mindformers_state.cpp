#include "io/convert/mindformers_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>

#include "base/error.h"
#include "config/bounds.h"
#include "config/config.h"
#include "files/atomic.h"
#include "files/convert.h"
#include "files/folder_mark.h"
#include "files/mindspore_ckpt.h"
#include "files/safetensors.h"
#include "files/tensor_set.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/mindformers.h"
#include "io/convert/mindformers_names.h"
#include "io/convert/ravine_checkpoint.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kPieceOfState = int64_t{4} << 20;

struct StateName {
  int64_t epoch, step_in_epoch;
  std::string name;
};

// Lists the complete checkpoint files of a folder; files of weights alone are in other folders.
std::vector<StateName> state_names(const std::string& folder) {
  static const std::regex form(R"(.*_rank_\d+(?:_\d+)?-(\d{1,12})_(\d{1,12})\.(?:safetensors|ckpt))");
  std::vector<StateName> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::smatch m;
    const std::string name = entry.path().filename().string();
    if (std::regex_match(name, m, form)) out.push_back({std::stoll(m[1]), std::stoll(m[2]), name});
  }
  std::sort(out.begin(), out.end(), [](const StateName& a, const StateName& b) {
    return std::tie(a.epoch, a.step_in_epoch, a.name) < std::tie(b.epoch, b.step_in_epoch, b.name);
  });
  return out;
}

std::string of_rank(const std::string& name, int64_t rank) {
  return std::regex_replace(name, std::regex("_rank_0"), fmt::format("_rank_{}", rank),
                            std::regex_constants::format_first_only);
}

// Returns the epoch and step in a rank's meta.json; nothing if it has none.
std::optional<std::pair<int64_t, int64_t>> last_saved(const std::string& meta) {
  std::error_code error;
  if (!fs::is_regular_file(meta, error)) return {};
  const Json j = read_json(meta);
  const auto whole = [&](const char* key) { return j.is_object() && j.contains(key) && j[key].is_number_integer(); };
  if (!whole("last_epoch") || !whole("last_step")) return {};
  return std::pair(j["last_epoch"].get<int64_t>(), j["last_step"].get<int64_t>());
}

std::optional<double> number_in(const TensorFile& file, const char* name) {
  const TensorInfo* t = file.find(name);
  if (!t || t->shape.count() != 1) return {};
  std::byte bytes[8] = {};
  double value = 0;
  file.read(*t, 0, {bytes, static_cast<size_t>(size_of(t->dtype))});
  convert(t->dtype, bytes, DType::f64, &value, 1);
  return value;
}

// Returns the files of rank_1, rank_2, .. that belong to DIR/rank_0/FILE.
std::vector<std::string> of_other_ranks(const std::string& path) {
  std::vector<std::string> out;
  const fs::path own = path;
  std::error_code error;
  if (own.parent_path().filename() != "rank_0") return out;
  for (int64_t r = 1;; ++r) {
    const fs::path other = own.parent_path().parent_path() / fmt::format("rank_{}", r) / of_rank(own.filename().string(), r);
    if (!fs::exists(other, error)) return out;
    out.push_back(other.string());
  }
}

// Returns the optimizer whose states a file holds; nothing if none, as for SGD without momentum, whose `accum` is
// unused.
std::optional<OptimizerType> optimizer_of(const TensorFile& file) {
  for (const StateSpelling& s : kStateSpellings)
    for (const TensorInfo& t : file.tensors())
      if (t.name.starts_with(s.theirs) && (s.kind != StateKind::momentum || number_in(file, "momentum").value_or(1) > 0))
        return s.optimizer;
  return {};
}

}  // namespace

std::vector<std::string> mindformers_checkpoints(const std::string& dir) {
  std::error_code error;
  const bool ranks = fs::is_directory(dir + "/rank_0", error);
  const std::string folder = ranks ? dir + "/rank_0" : dir;
  // Files newer than the last save completed by all ranks are ignored.
  std::optional<std::pair<int64_t, int64_t>> last;
  for (int64_t r = 0; ranks && fs::is_directory(fmt::format("{}/rank_{}", dir, r), error); ++r)
    if (const auto saved = last_saved(fmt::format("{}/rank_{}/meta.json", dir, r)); saved && (!last || *saved < *last))
      last = saved;
  std::vector<std::string> out;
  for (const StateName& s : state_names(folder)) {
    bool all = !last || std::pair(s.epoch, s.step_in_epoch) <= *last;
    for (int64_t r = 1; ranks && fs::is_directory(fmt::format("{}/rank_{}", dir, r), error); ++r)
      all = all && fs::exists(fmt::format("{}/rank_{}/{}", dir, r, of_rank(s.name, r)), error);
    if (all) out.push_back(folder + "/" + s.name);
  }
  return out;
}

ForeignState open_mindformers_state(const std::string& path, const Json& model, const std::string& where, int64_t global_batch,
                                    int64_t data_steps) {
  ForeignState out;
  out.where = path;
  const std::shared_ptr<const TensorFile> file = open_tensor_file(path);
  const auto step = number_in(*file, "step_num"), updates = number_in(*file, "global_step");
  if (!updates && !step)
    throw UserError("weights, no checkpoint of training", path,
                    "it lacks global_step and step_num, so no run can resume from it",
                    "begin a new run with these weights: resume_training: False, or model.weights");
  const auto whole = [&](double value, const char* what) {
    if (!(value >= 0 && value <= kMostSteps && value == std::floor(value)))
      throw UserError(fmt::format("{} is {}", what, value), path, fmt::format("it counts from 0 to {}", kMostSteps),
                      "use another checkpoint");
    return static_cast<int64_t>(value);
  };
  int64_t done = whole(step.value_or(updates.value_or(0)), "step_num"), made = whole(updates.value_or(*step), "global_step");
  made = std::min(made, done);
  for (const std::string& other : of_other_ranks(path)) {
    const std::shared_ptr<const TensorFile> other_file = open_tensor_file(other);
    if (number_in(*other_file, "step_num") != step || number_in(*other_file, "global_step") != updates)
      throw UserError("ranks of different steps", other, fmt::format("its step_num and global_step are not those of {}", path),
                      "use files of one checkpoint");
  }
  const int64_t batch =
      whole(number_in(*file, "global_batch_size").value_or(static_cast<double>(global_batch)), "global_batch_size");
  const bool same = batch == global_batch || batch == 0;
  if (!same) {
    const double scale = static_cast<double>(batch) / static_cast<double>(global_batch);
    done = static_cast<int64_t>(static_cast<double>(done) * scale),
    made = static_cast<int64_t>(static_cast<double>(made) * scale);
  }
  out.step = done;
  out.scalars = {{"step", done}, {"tokens", 0}, {"optimizer_steps", made}, {"global_batch", global_batch}};
  if (const auto scale = number_in(*file, "scale_sense") ? number_in(*file, "scale_sense") : number_in(*file, "loss_scale"))
    out.scalars["loss_scale"] = {{"scale", *scale}, {"step", 1}, {"last_overflow", 0}, {"hysteresis", 1}};
  if (const auto own = file->metadata().find(kOwnScalars); own != file->metadata().end() && same)
    take_kept_scalars(kept_scalars_of(own->second), out.scalars);
  if (data_steps >= 0)
    out.scalars["data"] = {
        {"sources", Json::array()},
        {"segments", {{{"step", done}, {"sample", data_steps * global_batch}, {"global_batch", global_batch}}}}};
  const Geometry g = geometry_of(model, where);
  std::vector<StateKind> kinds{StateKind::weights};
  const std::optional<OptimizerType> optimizer = optimizer_of(*file);
  for (const StateSpelling& s : kStateSpellings)
    if (s.optimizer == optimizer && s.written) kinds.push_back(s.kind);
  if (optimizer) out.scalars["optimizer"] = std::string(name(*optimizer));
  for (const StateKind kind : kinds) {
    Weights w = read_mindformers(path, model, where, false, kind, optimizer.value_or(OptimizerType::adamw));
    if (!is_moment(kind)) refuse_missing_tensors(w, path);
    check_weights(w, g, false, is_moment(kind));
    for (const Param& p : g.model->params().params()) {
      if (p.tied) continue;
      const auto it = w.tensors.find(p.name);
      if (it != w.tensors.end()) out.tensors.emplace(std::string(state_prefix(kind)) + p.name, it->second);
    }
  }
  return out;
}

namespace {

// Returns the layers of each stage.
std::vector<std::vector<int64_t>> layers_of_stages(const MindFormersState& s, int64_t layers) {
  std::vector<std::vector<int64_t>> out(static_cast<size_t>(s.pipeline));
  int64_t layer = 0;
  for (size_t part = 0; part < s.stage_layers.size(); ++part)
    for (int64_t i = 0; i < s.stage_layers[part]; ++i) out[part % out.size()].push_back(layer++);
  if (layer != layers) {  // one stage
    out.assign(1, {});
    for (int64_t i = 0; i < layers; ++i) out[0].push_back(i);
    out.resize(static_cast<size_t>(s.pipeline));
  }
  return out;
}

// True if a stage holds a parameter, by Ravine's name: the first stage also holds the embedding, the last the tensors
// after the layers.
bool on_stage(const std::string& name, const std::vector<int64_t>& layers, bool first, bool last) {
  static const std::regex layer(R"(model\.layers\.(\d+)\..*)");
  std::smatch m;
  if (std::regex_match(name, m, layer)) return std::find(layers.begin(), layers.end(), std::stoll(m[1])) != layers.end();
  return name.starts_with("model.embed") ? first : last;
}

struct Small {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

template <class T>
Small small(const std::string& name, DType dtype, Shape shape, T value) {
  Small s{name, dtype, shape, std::vector<std::byte>(sizeof(T))};
  std::memcpy(s.bytes.data(), &value, sizeof(T));
  return s;
}

struct StateTensorOut {
  std::string name;
  ElementsPtr elements;
};

void write_file_of_rank(const std::string& path, const std::vector<StateTensorOut>& tensors, const std::vector<Small>& more,
                        const Metadata& metadata, bool ckpt) {
  std::vector<std::byte> piece;
  const auto stream = [&](const Elements& e, auto&& take) {
    const int64_t size = size_of(e.dtype()), most = kPieceOfState / size;
    for (int64_t at = 0; at < e.count(); at += most) {
      const int64_t n = std::min(most, e.count() - at);
      piece.resize(static_cast<size_t>(n * size));
      e.read(at, piece);
      take(std::span<const std::byte>(piece));
    }
  };
  if (ckpt) {
    CkptWriter writer(path);
    for (const StateTensorOut& t : tensors) {
      writer.begin(t.name, t.elements->dtype(), t.elements->shape());
      stream(*t.elements, [&](std::span<const std::byte> bytes) { writer.append(bytes); });
    }
    for (const Small& s : more) writer.begin(s.name, s.dtype, s.shape), writer.append(s.bytes);
    writer.commit();
    return;
  }
  SafetensorsWriter writer(path, {.metadata = metadata});
  for (const StateTensorOut& t : tensors) writer.declare(t.name, t.elements->dtype(), t.elements->shape());
  for (const Small& s : more) writer.declare(s.name, s.dtype, s.shape);
  for (const StateTensorOut& t : tensors)
    stream(*t.elements, [&](std::span<const std::byte> bytes) { writer.write(t.name, bytes); });
  for (const Small& s : more) writer.write(s.name, s.bytes);
  writer.commit();
}

// Returns the optimizer options recorded in the checkpoint's run.
OptimizerOptions optimizer_in(const Json& scalars) {
  Config config;
  const auto options = scalars.find("options");
  for (const Section& section : sections_of(config))
    for (const Option& o : section.options)
      if (section.name == "optimizer" && options != scalars.end() && options->is_object() && options->contains(o.name()))
        o.assign_text((*options)[o.name()].get<std::string>(), "the checkpoint");
  return config.optimizer;
}

constexpr const char* kMadeByRun = "states of MindFormers";  // kind of the mark

// Returns size, inode and time of change of a file. A later change or a copy has another inode or time.
FolderMark::File made_file(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return {};
  return {s.st_size, "", static_cast<int64_t>(s.st_ino), int64_t{s.st_ctim.tv_sec} * 1'000'000'000 + s.st_ctim.tv_nsec};
}

// Returns the files that the run has written in DIR, at this start or an earlier one.
FolderMark made_by_run(const MindFormersState& s) {
  std::optional<FolderMark> mark = read_mark(s.dir);
  return mark && mark->kind == kMadeByRun && mark->run == s.run ? *mark
                                                                : FolderMark{.run = s.run, .files = {}, .kind = kMadeByRun};
}

// Removes files of this prefix and run that are older than the newest `keep` up to the step of `state`.
void remove_older_states(int64_t rank, const MindFormersState& state, FolderMark& made) {
  const int64_t keep = state.keep;
  const std::string rank_folder = fmt::format("rank_{}/", rank), folder = state.dir + "/" + rank_folder;
  std::vector<StateName> own;
  for (StateName& s : state_names(folder)) {
    const auto known = made.files.find(rank_folder + s.name);
    if (known == made.files.end() || !s.name.starts_with(state.prefix + "_rank_")) continue;
    const FolderMark::File is = made_file(folder + s.name), &was = known->second;
    if (is.bytes != was.bytes || is.inode != was.inode || is.changed != was.changed) continue;
    if (std::tie(s.epoch, s.step_in_epoch) <= std::tie(state.epoch, state.step_in_epoch)) own.push_back(std::move(s));
  }
  std::error_code error;
  for (size_t i = 0; keep > 0 && i + static_cast<size_t>(keep) < own.size(); ++i)
    if (fs::remove(fs::path(folder) / own[i].name, error)) made.files.erase(rank_folder + own[i].name);
}

}  // namespace

std::set<std::string> files_of_states(const std::string& dir) {
  std::set<std::string> out;
  const std::string parent = fs::path(dir).parent_path().string();
  for (const std::string& root : {dir, parent + "/checkpoint_network", parent + "/checkpoint_trainable"}) {
    std::error_code error;
    for (auto at = fs::recursive_directory_iterator(root, error); !error && at != fs::recursive_directory_iterator();
         at.increment(error))
      out.insert(at->path().string());
  }
  return out;
}

std::string write_mindformers_state(const std::string& checkpoint, const Json& model, const std::string& where,
                                    const MindFormersState& s) {
  const Geometry g = geometry_of(model, where);
  const CheckpointReader reader(checkpoint, false);
  const Json& scalars = reader.scalars();
  const OptimizerOptions optimizer = optimizer_in(scalars);
  // By MindFormers' prefix; weights have none and come first.
  std::vector<std::pair<std::string, std::map<std::string, ElementsPtr>>> states;
  states.emplace_back("", read_ravine_checkpoint(checkpoint, model, where, StateKind::masters).tensors);
  for (const StateSpelling& spelling : kStateSpellings) {
    if (spelling.optimizer != optimizer.type || !spelling.written) continue;
    const std::string prefix(state_prefix(spelling.kind));
    if (std::any_of(g.model->params().params().begin(), g.model->params().params().end(),
                    [&](const Param& p) { return reader.has(prefix + p.name); }))
      states.emplace_back(spelling.theirs, read_ravine_checkpoint(checkpoint, model, where, spelling.kind).tensors);
  }
  if (optimizer.type == OptimizerType::sgd) {
    std::map<std::string, ElementsPtr> none;
    for (const auto& [name, e] : states[0].second) none.emplace(name, zeros(DType::f32, e->shape()));
    if (states.size() == 1) states.emplace_back("accum.", none);
    states.emplace_back(kBeforeFirst, std::move(none));
  }
  const auto count = [&](const char* key, int64_t otherwise) { return field_or(scalars, key, checkpoint, otherwise); };
  double scale = 1;
  if (const auto it = scalars.find("loss_scale"); it != scalars.end() && it->is_object()) scale = it->value("scale", 1.0);
  std::vector<Small> more = {
      small("epoch_num", DType::i64, {}, s.epoch),
      small("step_num", DType::i64, {}, reader.step()),
      small("global_step", DType::i32, {1}, static_cast<int32_t>(count("optimizer_steps", reader.step()))),
      small("loss_scale", DType::f32, {}, static_cast<float>(scale)),
      small("scale_sense", DType::f32, {}, static_cast<float>(scale)),
      small("global_batch_size", DType::i64, {}, count("global_batch", 1))};
  if (optimizer.type == OptimizerType::sgd)
    more.push_back(small("momentum", DType::f32, {}, static_cast<float>(optimizer.momentum)));
  for (size_t i = 0; optimizer.type == OptimizerType::adam && i < 2; ++i) {
    float power = 1;  // a product in f32 step by step, as in MindFormers
    for (int64_t n = count("optimizer_steps", reader.step()); n > 0; --n) power *= static_cast<float>(optimizer.betas[i]);
    more.push_back(small(fmt::format("beta{}_power", i + 1), DType::f32, {}, power));
  }
  const Metadata metadata{{"format", "ms"}, {"remove_redundancy", "False"}, {kOwnScalars, kept_scalars(scalars).dump()}};
  const auto stages = layers_of_stages(s, g.layers);
  const std::string ending = s.ckpt ? "ckpt" : "safetensors";
  std::string first_name;
  FolderMark made = made_by_run(s);
  for (int64_t stage = 0; stage < s.pipeline; ++stage)
    for (int64_t t = 0; t < s.tensor; ++t) {
      std::vector<StateTensorOut> tensors;
      size_t weights = 0;
      for (const auto& [prefix, of_weights] : states) {
        for (const auto& [name, e] : of_weights)
          if (on_stage(name, stages[static_cast<size_t>(stage)], stage == 0, stage == s.pipeline - 1))
            tensors.push_back({prefix + mindformers_name(name, g), tensor_part(mindformers_name(name, g), e, t, s.tensor)});
        if (prefix.empty()) weights = tensors.size();
      }
      for (int64_t d = 0; d < s.data; ++d) {
        const int64_t rank = (stage * s.data + d) * s.tensor + t;
        const std::string folder = fmt::format("{}/rank_{}", s.dir, rank);
        // Older files stay: the name avoids them by MindFormers' counter.
        const auto free_name = [&](const std::string& to, const std::string& kind) {
          for (int64_t n = 0;; ++n) {
            const std::string counter = n == 0 ? "" : fmt::format("_{}", n);
            std::string made =
                fmt::format("{}_rank_{}{}-{}{}_{}.{}", s.prefix, rank, counter, kind, s.epoch, s.step_in_epoch, ending);
            if (!s.before.contains(to + "/" + made)) return made;
          }
        };
        const std::string name = free_name(folder, "");
        create_folders(folder);
        write_file_of_rank(folder + "/" + name, tensors, more, metadata, s.ckpt);
        const std::string parent = fs::path(s.dir).parent_path().string();
        for (const std::string& copy : s.copies) {
          const bool network = copy == "network";
          const std::string to = fmt::format("{}/checkpoint_{}/rank_{}", parent, copy, rank);
          create_folders(to);
          write_file_of_rank(to + "/" + free_name(to, network ? "network-" : "trainable_params-"),
                             {tensors.begin(), tensors.begin() + static_cast<ptrdiff_t>(weights)}, {}, {{"format", "ms"}},
                             s.ckpt);
        }
        made.files[fmt::format("rank_{}/{}", rank, name)] = made_file(folder + "/" + name);
        const Json meta = {{"last_epoch", s.epoch}, {"last_step", s.step_in_epoch}, {"last_ckpt_file", name}};
        write_file_atomic(folder + "/meta.json", meta.dump() + "\n");
        write_file_atomic(s.dir + "/config.json", model.dump(2) + "\n");  // for `ravine convert`
        if (rank == 0) first_name = name;
      }
    }
  write_mark(s.dir, made);
  for (int64_t rank = 0; rank < s.pipeline * s.tensor * s.data; ++rank)  // after all ranks have written the new file
    remove_older_states(rank, s, made);
  write_mark(s.dir, made);
  return first_name;
}

}  // namespace ravine
