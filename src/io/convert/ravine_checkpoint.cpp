#include "io/convert/ravine_checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "engine/initial_values.h"
#include "files/compressed.h"
#include "files/folder_mark.h"
#include "files/safetensors.h"
#include "files/temporary.h"
#include "files/tokenizer_files.h"
#include "io/checkpoint.h"
#include "io/checkpoint_health.h"
#include "io/convert/hf_folder.h"
#include "io/huggingface.h"
#include "io/manifest.h"
#include "io/open_weights.h"
#include "io/run_files.h"
#include "model/vocabulary.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kStatePiece = int64_t{8} << 20;  // bytes of one read
constexpr int64_t kMaxRunFile = int64_t{1} << 30;

// Returns the options of a run; nothing if it has none, or unreadable ones, which are noted. Files named by the options
// are then searched only in the run's own folders.
std::optional<Config> options_of(const std::string& run, std::vector<std::string>& notes) {
  const std::string yaml = run + "/config.yaml";
  if (!fs::exists(yaml)) return {};
  try {
    return read_run_config(yaml);
  } catch (const UserError& e) {
    notes.push_back(fmt::format("the options of the run are not looked at: {}", e.what()));
    return {};
  }
}

// Returns the config.json of the model that the run trains; "" if it is not found.
std::string run_model_config(const std::string& run, const std::optional<Config>& options) {
  for (const std::string& own : {run + "/config.json", run + "/model/config.json"})
    if (fs::exists(own)) return own;
  if (!options) return "";
  const std::string path = options->model.path.empty() ? options->model.config : options->model.path;
  return fs::is_directory(path) ? path + "/config.json" : path;
}

// Finds the tokenizer of a run, with generation_config.json and chat template: in its final model's folder, else by its
// options.
void find_tokenizer(const std::string& run, const std::optional<Config>& options, Weights& w) {
  for (const std::string& own : {run, run + "/model"})
    if (has_tokenizer(own)) {
      w.folder = own;
      return;
    }
  if (!options) return;
  std::error_code error;
  auto gone = [&](const std::string& path) {
    if (path.empty() || fs::exists(path, error)) return false;
    w.notes.push_back(fmt::format("{}, which the run's config.yaml names, is gone: no tokenizer is copied from there", path));
    return true;
  };
  if (!options->model.path.empty() && !gone(options->model.path)) w.folder = options->model.path;
  if (!gone(options->model.tokenizer)) w.tokenizer = options->model.tokenizer;
}

// Changes the weights of model.path to those at the start of the run: applies model.vocabulary and model.tie to
// embedding and head. New rows are not rounded to the type of the files.
void as_begun(Weights& began, const Geometry& stored, const Geometry& run, const Config& options) {
  if (stored.tied && !run.tied) began.add(kHead, began.tensors.at(kEmbedding));
  if (stored.vocabulary == run.vocabulary) return;
  for (const char* name : {kEmbedding, kHead})
    if (auto it = began.tensors.find(name); it != began.tensors.end()) {
      it->second = as_type(it->second, DType::f32);
      if (options.model.new_rows == NewRows::mean || run.vocabulary <= stored.vocabulary) continue;
      const Param& p = *run.find(name);
      const Shape rows{run.vocabulary - stored.vocabulary, p.shape[1]};
      std::vector<std::byte> drawn(static_cast<size_t>(rows.count() * size_of(DType::f32)));
      draw_values(p, static_cast<uint64_t>(options.train.seed), stored.vocabulary * p.shape[1], rows.count(),
                  view_of(drawn.data(), DType::f32, rows), 0);
      it->second = stack_rows({all_rows(it->second), all_rows(in_memory(DType::f32, rows, std::move(drawn)))},
                              fmt::format("{} new rows of normal numbers", rows[0]));
    }
  resize_vocabulary(began, run.spec().implied, run.vocabulary);
}

// Adds the frozen weights, which a checkpoint does not hold, from the model folder that its run started from.
void add_frozen(Weights& w, const Json& names, const Json& scalars, const std::optional<Config>& options,
                const std::string& checkpoint) {
  const std::string from = options ? options->model.path : "";
  const auto sum = scalars.find("weights");
  auto refuse = [&](const std::string& what) {
    throw UserError(
        what, checkpoint,
        fmt::format("{} frozen parameters are not in it: they are those of the model that the run began with", names.size()),
        "put that model back where model.path in the run's config.yaml says, or set it there to where it is now");
  };
  if (!names.is_array())
    throw UserError("checkpoint is damaged", checkpoint + "/manifest.json: scalars.frozen", "it must be an array of names",
                    "use another checkpoint");
  if (from.empty() || !fs::is_directory(from))
    refuse(from.empty() ? "model.path of the run is not known" : fmt::format("{}, which the run began with, is gone", from));
  if (sum == scalars.end() || !sum->is_string() || weights_checksum(from) != sum->get<std::string>())
    refuse(fmt::format("{} holds other weights than when the run began", from));
  const std::string where = from + "/config.json";
  const Json config = read_json(where);
  const Geometry stored = geometry_of(config, where);
  Weights began = read_hf(from, config, where);
  from_family_files(began, stored);
  as_begun(began, stored, geometry_of(w.config, w.config_where), *options);
  for (const Json& name : names) {
    const auto it = name.is_string() ? began.tensors.find(name.get<std::string>()) : began.tensors.end();
    if (it == began.tensors.end()) refuse(fmt::format("{} has no {}", from, name.dump()));
    w.add(it->first, it->second);
  }
  w.notes.push_back(fmt::format("{} frozen parameters are not in the checkpoint: they are read from {}", names.size(), from));
}

}  // namespace

std::string ravine_checkpoint_of(const std::string& path, std::vector<std::string>& notes) {
  if (fs::exists(path + "/manifest.json")) return path;
  const std::string checkpoints = fs::is_directory(path + "/checkpoints") ? path + "/checkpoints" : path;
  const auto newest = newest_checkpoint(checkpoints, [&](const std::string& text) { notes.push_back(text); });
  if (!newest) throw UserError("no checkpoint", checkpoints, "it must hold a folder step_N", "check the path");
  const std::string name = fs::path(*newest).filename().string();
  if (!CheckpointVerdicts(checkpoints).healthy(name))
    notes.push_back(fmt::format(
        "{} is the newest, and the run judged it unhealthy; an older one is converted where it is named: --input {}/step_N",
        name, checkpoints));
  return *newest;
}

std::optional<Config> options_of_checkpoint(const std::string& folder, std::vector<std::string>& notes) {
  return options_of(fs::absolute(folder).lexically_normal().parent_path().parent_path().string(), notes);
}

Weights read_ravine_checkpoint(const std::string& path, const Json& config, const std::string& config_where, StateKind kind) {
  Weights w;
  const std::string folder = ravine_checkpoint_of(path, w.notes);
  // newest_checkpoint has verified its result; moments are in the files whose weights were read before.
  if (folder == path && !is_moment(kind)) CheckpointReader(folder, true);
  const Manifest m = parse_manifest(read_whole(folder + "/manifest.json", kMaxRunFile), folder + "/manifest.json");
  w.config = config;
  w.config_where = config_where;
  const std::string run = fs::absolute(folder).lexically_normal().parent_path().parent_path().string();
  const std::optional<Config> options = options_of(run, w.notes);
  if (w.config.is_null()) {
    w.config_where = run_model_config(run, options);
    const bool there = !w.config_where.empty() && fs::exists(w.config_where);
    if (there) w.folder = folder_of(w.config_where);
    // The config as trained: a new model may have its vocabulary size from the tokenizer.
    if (m.scalars.is_object() && m.scalars.contains("model") && m.scalars["model"].is_object())
      w.config = m.scalars["model"], w.config_where = folder + "/manifest.json";
    else if (there)
      w.config = read_run_json(w.config_where);
    else
      throw UserError("no config", folder, "the run's config.yaml must name the model", "give --model-config CONFIG.json");
  }
  find_tokenizer(run, options, w);
  std::vector<std::shared_ptr<const SafetensorsReader>> files;
  for (const Manifest::File& f : m.files) {
    files.push_back(std::make_shared<SafetensorsReader>(folder + "/" + f.name));
    if (files.back()->file_size() != f.bytes)
      throw UserError("checkpoint is damaged", files.back()->path(),
                      fmt::format("the manifest says {} bytes, the file has {}", f.bytes, files.back()->file_size()),
                      "use another checkpoint");
  }
  const std::string prefix(state_prefix(kind));
  for (const Manifest::Tensor& t : m.tensors) {
    if (!t.name.starts_with(prefix)) continue;
    std::vector<Copy> copies;
    for (const Manifest::Slice& s : t.slices) {
      const TensorInfo& info = files[s.file]->tensor(s.stored);
      if (info.dtype != t.dtype || info.shape.count() != s.box.shape.count())
        throw UserError("checkpoint is damaged", fmt::format("{}: tensor '{}'", files[s.file]->path(), printable(s.stored)),
                        "its size or type is not what the manifest says", "use another checkpoint");
      const ElementsPtr e = stored(files[s.file], info);
      each_shared_run(s.box, {std::vector<int64_t>(static_cast<size_t>(t.shape.rank()), 0), t.shape}, [&](const Run& r) {
        copies.push_back({e, r.from, 0, r.to, 0, 1, r.count});
      });
    }
    w.add(t.name.substr(prefix.size()),
          assembled(t.shape, std::move(copies), t.slices.size() == 1 ? "as it is" : fmt::format("{} slices", t.slices.size())));
  }
  if (const auto frozen = m.scalars.find("frozen"); frozen != m.scalars.end() && !is_moment(kind) && kind != StateKind::trained)
    add_frozen(w, *frozen, m.scalars, options, folder);
  if (w.tensors.empty() && is_moment(kind))
    throw UserError("no optimizer state", folder, "moments of Adam and AdamW are read", "leave out --optimizer");
  if (w.tensors.empty()) throw UserError("no weights", folder, "it must be a checkpoint of training", "check the path");
  auto scalar = [&](const char* key, int64_t fallback) {
    const auto it = m.scalars.find(key);
    return it != m.scalars.end() && it->is_number_integer() ? it->get<int64_t>() : fallback;
  };
  w.position = {m.step, scalar("optimizer_steps", m.step), scalar("tokens", 0), scalar("global_batch", 0)};
  if (const auto it = m.scalars.find("data"); it != m.scalars.end()) w.data_history = *it;
  return w;
}

std::vector<NamedElements> plan_ravine(const Weights& w, const Weights& first, const Weights& second, const Geometry& g) {
  std::vector<NamedElements> out;
  auto add = [&](const char* prefix, const Weights& from, const Param& p) {
    auto it = from.tensors.find(p.name);
    out.push_back({prefix + p.name, it == from.tensors.end() ? zeros(DType::f32, p.shape) : it->second, DType::f32});
  };
  for (const Param& p : g.model->params().params()) {
    if (p.tied) continue;
    add("weights/", w, p), add("m/", first, p), add("v/", second, p);
  }
  return out;
}

void write_ravine(TargetFolder& folder, const std::vector<NamedElements>& tensors, const Weights& w,
                  const std::function<void(int64_t)>& progress) {
  write_file_atomic(folder.path("config.json"), w.config.dump(2) + "\n");
  copy_companion_files(folder, w);
  Manifest m;
  m.step = w.position.step;
  m.program = "ravine convert";
  m.scalars = {{"step", m.step},
               {"tokens", w.position.tokens},
               {"optimizer_steps", w.position.optimizer_steps},
               {"optimizer", name(OptimizerType::adamw)}};
  if (w.position.global_batch > 0) m.scalars["global_batch"] = w.position.global_batch;
  if (!w.data_history.is_null()) m.scalars["data"] = w.data_history;
  const std::string step = fmt::format("checkpoints/{}", checkpoint_name(m.step));
  for (size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    std::vector<const NamedElements*> shard;
    int64_t bytes = 0;
    for (; end < tensors.size(); ++end) {
      const int64_t more = tensors[end].elements->count() * size_of(DType::f32);
      if (end > begin && bytes + more > kShardBytes) break;
      bytes += more;
      shard.push_back(&tensors[end]);
    }
    const std::string file = fmt::format("state-{:05}.safetensors", m.files.size());
    write_weight_file(folder, step + "/" + file, shard, {{"format", "ravine-checkpoint"}}, progress);
    // Checksums are computed from the disk, also for files of an earlier conversion.
    const SafetensorsReader reader(folder.path(step + "/" + file));
    std::vector<std::byte> piece(static_cast<size_t>(reader.data_begin()));
    int64_t size = 0;
    Fd fd = open_to_read(reader.path(), &size);
    read_all_at(*fd, 0, piece, reader.path());
    m.files.push_back({file, size, checksum_of(piece)});
    for (const NamedElements* t : shard) {
      const TensorInfo& info = reader.tensor(t->name);
      Checksum sum;
      for (int64_t at = 0, n = 0; at < info.end - info.begin; at += n) {
        n = std::min(kStatePiece, info.end - info.begin - at);
        piece.resize(static_cast<size_t>(n));
        reader.read(info, at, piece);
        sum.update(piece);
      }
      const Shape& shape = t->elements->shape();
      m.tensors.push_back(
          {t->name,
           DType::f32,
           shape,
           {{m.files.size() - 1, t->name, {std::vector<int64_t>(static_cast<size_t>(shape.rank())), shape}, sum.value()}}});
    }
  }
  if (const std::string fault = manifest_fault(m); !fault.empty())
    fail("convert: the checkpoint holds every tensor once, got {}", fault);
  write_file_atomic(folder.path(step + "/manifest.json"), write_manifest(m));
  write_file_atomic(folder.path("checkpoints/latest"), checkpoint_name(m.step) + "\n");
  write_mark(folder.folder(), {.run = new_run_id(), .files = {}, .kind = kRunFolder});  // a run can resume in it
}

}  // namespace ravine
