#include "styles/mindformers_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/checkpoint_health.h"
#include "io/convert/held_options.h"
#include "io/convert/mindformers_state.h"
#include "io/run_files.h"
#include "step/layout.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

// Returns the path of the health record next to a folder of checkpoints, which the run has left that wrote them.
std::string health_record_path(const std::string& checkpoints) {
  fs::path folder = fs::path(checkpoints).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (folder.filename().string().starts_with("rank_")) folder = folder.parent_path();
  return (folder.parent_path() / kHealthFile).string();
}

// Returns the health verdicts of a record, by checkpoint name; true means healthy.
std::map<std::string, bool> recorded_verdicts(const std::string& path) {
  std::map<std::string, bool> out;
  std::error_code error;
  if (!fs::exists(path, error)) return out;
  for (const Json& c : read_run_json(path))
    if (c.is_object() && c.contains("ckpt_name") && c["ckpt_name"].is_string() && c.contains("is_health"))
      out[c["ckpt_name"].get<std::string>()] = c["is_health"] == 0;
  return out;
}

class MindFormersFiles : public CheckpointFiles {
 public:
  void check(const Config& config) const override;
  std::string to_resume(const Config& config) const override;
  ForeignState open(const OpenedRun& run, const std::string& path) const override;
  Publisher publisher(const OpenedRun& run) const override;
  std::string folder(const Config& config) const override { return run_path(config, "checkpoint"); }
  std::string how_to_go_on(const Config& config) const override {
    return fmt::format("checkpoint.resume={} (resume_training: True, load_checkpoint: that folder)", folder(config));
  }
  std::string pattern() const override { return "checkpoint"; }
  bool exports_model() const override { return false; }
};

void MindFormersFiles::check(const Config& c) const {
  const std::string& prefix = c.checkpoint.prefix;  // the rest of a file name has up to 60 characters
  if (prefix.size() > 180 || std::any_of(prefix.begin(), prefix.end(), [](unsigned char x) { return x < 32 || x == '/'; }))
    throw UserError(fmt::format("checkpoint.prefix is '{}'", escaped(prefix.substr(0, 80))), "checkpoint.prefix",
                    "it begins the names of files: at most 180 characters, no '/', no control characters", "shorten it");
  static const OptimizerType kFiled[] = {OptimizerType::adamw, OptimizerType::adam, OptimizerType::lamb, OptimizerType::sgd};
  if (std::find(std::begin(kFiled), std::end(kFiled), c.optimizer.type) != std::end(kFiled)) return;
  throw UserError(fmt::format("checkpoint.layout is mindformers, optimizer.type {}", name(c.optimizer.type)),
                  "checkpoint.layout", "its files keep the states of adamw, adam, lamb and sgd, under MindFormers' names",
                  "use one of these, or set checkpoint.layout=ravine, whose files MindFormers does not read");
}

std::string MindFormersFiles::to_resume(const Config& config) const {
  const std::string& resume_from = config.checkpoint.resume;
  if (resume_from == kResumeNone) return "";
  const std::string path = resume_from == kResumeNewest ? run_path(config, "checkpoint") : resume_from;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (resume_from == kResumeNewest) return "";
    if (!fs::exists(path, error))
      throw UserError("no such checkpoint", "checkpoint.resume=" + resume_from,
                      "it is a file of MindFormers, or a folder with rank_R", "correct the path");
    return path;
  }
  std::vector<std::string> all = mindformers_checkpoints(path);
  if (all.empty()) {
    if (resume_from == kResumeNewest) return "";
    throw UserError("no checkpoint", "checkpoint.resume=" + resume_from,
                    "it holds no PREFIX_rank_0-EPOCH_STEP that every rank_R has", "name another folder");
  }
  if (config.health.embedding_norm > 0) {
    // MindFormers reads the record in its own output_dir, wherever the checkpoints are.
    const std::string record = run_path(config, kHealthFile), other = health_record_path(path);
    const std::map<std::string, bool> verdicts = recorded_verdicts(record);
    std::erase_if(all, [&](const std::string& file) {
      const auto it = verdicts.find(fs::path(file).filename().string());
      return it == verdicts.end() || !it->second;
    });
    if (all.empty())
      throw UserError(
          "the training has no healthy checkpoints yet", path,
          fs::exists(record, error)
              ? fmt::format("{} lists none of them as healthy, and a run resumes from healthy ones only", record)
              : fmt::format("there is no {} that lists one of them as healthy, and a run resumes from healthy ones only",
                            record),
          !fs::exists(record, error) && fs::exists(other, error)
              ? fmt::format("{} has the verdicts on these checkpoints: name the newest file that it calls healthy", other)
              : "start training again, or raise the threshold of embedding_local_norm; or name a checkpoint");
  }
  return all.back();
}

ForeignState MindFormersFiles::open(const OpenedRun& run, const std::string& path) const {
  const Config& c = run.config();
  ForeignState state =
      open_mindformers_state(path, run.model->config(), model_label(c.model), c.train.global_batch, c.checkpoint.data_steps);
  state.scalars["options"] = mindformers_held(path).recorded();
  return state;
}

Publisher MindFormersFiles::publisher(const OpenedRun& run) const {
  const Config& c = run.config();
  MindFormersState s{.dir = run.path("checkpoint"),
                     .prefix = c.checkpoint.prefix,
                     .ckpt = c.checkpoint.format == CheckpointFormat::ckpt,
                     .copies = c.checkpoint.copies,
                     .keep = c.checkpoint.keep,
                     .run = run.folder->run(),
                     .before = files_of_states(run.path("checkpoint")),
                     .data = run.spec->layout.mesh.data,
                     .tensor = run.spec->layout.mesh.tensor,
                     .pipeline = run.spec->layout.mesh.pipeline,
                     .stage_layers = layers_of_parts(*run.model, c)};
  const int64_t epoch_steps = std::max<int64_t>(1, run.data.train->sample_count() / c.train.global_batch), sink = c.log.sink;
  return [s, epoch_steps, sink, model = run.model->config(), where = model_label(c.model),
          checkpoint_folder = run.path("checkpoint")](const std::string& folder, int64_t step, const Json& scalars) mutable {
    s.epoch = sink > 0 ? (step + sink - 1) / sink : (step - 1) / epoch_steps + 1;
    s.step_in_epoch = sink > 0 ? sink : (step - 1) % epoch_steps + 1;
    const std::string name = write_mindformers_state(folder, model, where, s);
    record_verdict(checkpoint_folder, name, scalars);
    return s.dir + "/rank_0/" + name;
  };
}

}  // namespace

std::shared_ptr<const CheckpointFiles> mindformers_files() { return std::make_shared<MindFormersFiles>(); }

}  // namespace ravine
