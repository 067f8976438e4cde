#include "runs/resume.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/version.h"
#include "io/convert/convert.h"
#include "optim/make_update_rule.h"
#include "optim/schedule.h"
#include "runs/adapter.h"
#include "runs/checkpoint_files.h"
#include "runs/healthy_only.h"
#include "runs/run_record.h"
#include "runs/run_state.h"

namespace ravine {
namespace {

std::string scalars_of(const ResumePoint& from) { return from.folder + "/manifest.json: scalars"; }

}  // namespace

Progress::Progress(const OpenedRun& run)
    : spikes(run.config().health),
      loss_scale(loss_scale_of(run.config().precision, run.spec->types.compute)),
      plateau(run.config().schedule, run.config().optimizer.lr),
      began_with(run.weights) {}

TrainState checkpoint_state(const OpenedRun& run, const Progress& p) {
  const Config& config = run.config();
  const RunLayout& layout = run.spec->layout;
  TrainState s = state_of(*run.engine, p.frozen_elsewhere ? StateFor::writing_trained : StateFor::writing);
  s.scalars["step"] = p.done;
  s.scalars["tokens"] = p.tokens;
  s.scalars["optimizer"] = name(config.optimizer.type);
  s.scalars["seed"] = config.train.seed;
  s.scalars["global_batch"] = config.train.global_batch;
  s.scalars["compute"] = std::string(name(run.spec->types.compute));
  s.scalars["sum_leaves"] = layout.sum_leaves;
  s.scalars["layout"] = {{"data", layout.mesh.data},
                         {"tensor", layout.mesh.tensor},
                         {"pipeline", layout.mesh.pipeline},
                         {"expert", layout.mesh.expert},
                         {"zero", config.parallel.zero},
                         {"sequence", config.parallel.sequence},
                         {"virtual", config.parallel.virtual_stages},
                         {"stage_layers", layers_of_parts(*run.model, config)},
                         {"micro_batches", layout.micro_batches}};
  s.scalars["data"] = p.history.json();
  s.scalars["fingerprint"] = run.data.fingerprint.json();
  s.scalars["options"] = run.spec->record;
  s.scalars["model"] = run.model->config();
  s.scalars["weights"] = p.began_with;
  if (p.frozen_elsewhere)
    for (const Param& param : run.model->params().params())
      if (!param.tied && !changes(param)) s.scalars["frozen"].push_back(param.name);
  s.scalars["line"] = p.line.json();
  if (p.window.steps > 0) s.scalars["window"] = p.window.json();
  if (follows_validation(config.schedule)) s.scalars["schedule"] = p.plateau.state();
  if (p.loss_scale) s.scalars["loss_scale"] = p.loss_scale->state();
  if (p.spikes.in_a_row() > 0) s.scalars["spikes_in_a_row"] = p.spikes.in_a_row();
  s.program = program_version();
  s.instructions = run.spec->kernels.instructions;
  return s;
}

namespace {

std::optional<ResumePoint> open_checkpoint(const OpenedRun& run) {
  const std::string& resume = run.config().checkpoint.resume;
  if (run.files) {
    const std::string file = gather_texts(run.ranks.all(), run.ranks.first() ? run.files->to_resume(run.config()) : "")[0];
    if (file.empty()) return std::nullopt;
    return ResumePoint{file, std::make_unique<CheckpointReader>(run.files->open(run, file))};
  }
  const std::string folder = run.path("checkpoints");
  const bool verify = run.config().checkpoint.verify;
  std::string from;
  auto warn = [&](const std::string& text) { run.log.warn("{}", text); };
  if (resume == kResumeNone) return std::nullopt;
  if (resume == kResumeNewest) {
    if (run.ranks.first()) from = newest_checkpoint(folder, warn, healthy_only(run.config()), verify).value_or("");
    from = gather_texts(run.ranks.all(), from)[0];
    if (from.empty()) return std::nullopt;
  } else {
    from = resume;
  }
  // newest_checkpoint has verified its result already
  return ResumePoint{from, std::make_unique<CheckpointReader>(from, verify && resume != kResumeNewest && run.ranks.first())};
}

// True if frozen weights are in model.path, as when the run began. If the checkpoint lacks them and model.path has
// others, throws a UserError.
bool frozen_lie_elsewhere(const OpenedRun& run, const ResumePoint* from, const std::string& began_with) {
  const auto& all = run.model->params().params();
  if (std::all_of(all.begin(), all.end(), [](const Param& p) { return changes(p); })) return false;
  if (!from) return !run.weights.empty();
  if (!began_with.empty() && began_with == run.weights) return true;
  const std::vector<std::string> lacks = left_out_of(*from->reader, *run.model);
  if (lacks.empty()) return false;
  const bool there = !run.weights.empty();
  throw UserError(
      there ? fmt::format("{} holds other weights than when this run began", base_of(run.config()))
            : "the weights that this run began with are not there",
      from->folder,
      fmt::format(
          "it lacks {} frozen parameter{} ({}{}): checkpoints of a run that began from stored weights leave out frozen ones",
          lacks.size(), lacks.size() > 1 ? "s" : "", lacks[0], lacks.size() > 1 ? ", .." : ""),
      fmt::format(fmt::runtime(there ? "restore the original weights, or set {} to their folder"
                                     : "set {} to the folder that this run began with, wherever it is now"),
                  run.config().model.config.empty() ? "model.path" : "model.weights"));
}

// Throws a UserError if the checkpoint holds states of another optimizer. A missing state is an error when it is read.
void refuse_other_states(const CheckpointReader& reader, const Model& model, const Config& config, const std::string& folder) {
  std::set<std::string> kept{"weights"};
  for (const StateDeclaration& state : make_update_rule(config.optimizer)->states())
    for (const Param& p : model.params().params())
      if (state.is_of(p)) kept.insert(state.name);
  for (const std::string& name : reader.names()) {
    const std::string kind = name.substr(0, name.find('/'));
    if (kept.contains(kind) || kind.starts_with("rank_")) continue;
    throw UserError(fmt::format("checkpoint holds '{}'", name), folder + "/manifest.json: tensors",
                    fmt::format("optimizer.type={} has no state '{}'", ravine::name(config.optimizer.type), kind),
                    "use another checkpoint");
  }
}

// True if the run that wrote these scalars scaled its losses, by its recorded options.
bool scaled_losses(const Json& scalars) {
  const auto options = scalars.find("options");
  if (options == scalars.end() || !options->is_object()) return false;
  auto is = [&](const char* key, std::string_view value) {
    const auto it = options->find(key);
    return it != options->end() && it->is_string() && it->get<std::string>() == value;
  };
  return is("precision.compute", name(DType::f16)) ||
         (options->contains("precision.loss_scale") && !is("precision.loss_scale", kAuto));
}

bool makes_the_rate(const std::string& option) {
  return option == "train.steps" || option == "optimizer.lr" || option.starts_with("schedule.");
}

void set_option(Config& config, const std::string& name, const std::string& value) {
  for (const Section& s : sections_of(config))
    for (const Option& o : s.options)
      if (o.name() == name) o.assign_text(value, "the checkpoint");
}

// Logs the learning rates of the last update and of the next one, if the options of `before` give the next one another
// rate.
void warn_of_other_rate(const OpenedRun& run, const Config& before, int64_t updates, int64_t done) {
  const Config& now = run.config();
  if (follows_validation(now.schedule) || make_update_rule(now.optimizer)->own_rate(updates + 1)) return;
  auto rate = [](const Config& c, int64_t update) { return learning_rate(c.schedule, c.optimizer.lr, c.train.steps, update); };
  const double next = rate(now, updates), would_be = rate(before, updates);
  if (next == would_be) return;
  run.log.line("rate     {:.4g} before, {:.4g} from step {} on; without the changed options {:.4g}", rate(before, updates - 1),
               next, done + 1, would_be);
}

}  // namespace

std::optional<ResumePoint> find_checkpoint(const OpenedRun& run, Progress& p) {
  const Config& config = run.config();
  std::optional<ResumePoint> from = open_checkpoint(run);
  if (!from) return std::nullopt;
  for (const std::string& line : run.taken) run.log.line("resume   {}", line);
  const CheckpointReader& reader = *from->reader;
  refuse_counts(reader.scalars(), reader.step(), scalars_of(*from));
  p.done = checkpoint_scalar(reader, "step");
  p.tokens = checkpoint_scalar(reader, "tokens");
  // Compares again: glance_at_checkpoint may have read another checkpoint.
  const RunRecord was = run_record(checkpoint_name(p.done), p.done, reader.scalars(), reader.instructions(), scalars_of(*from));
  refuse_other_model(was, *run.model, config);
  const std::vector<OptionChange> changes = option_changes(was, run.spec->record, run.weights);
  std::vector<OptionChange> binding = changes;
  if (run.files)  // only the option of the states applies to the files of another program
    std::erase_if(binding, [](const OptionChange& c) { return c.name != "optimizer.type"; });
  refuse_other_options(was, binding, config);
  refuse_other_states(reader, *run.model, config, from->folder);
  if (!was.weights.empty()) p.began_with = was.weights;
  p.frozen_elsewhere = frozen_lie_elsewhere(run, &*from, was.weights);
  // for another path, this is a UserError
  if (!was.weights.empty() && !run.weights.empty() && was.weights != run.weights)
    run.log.warn("{} holds other weights than when this run began: it goes on with those of {}, and not with these",
                 config.model.path, was.checkpoint);
  if (!config.checkpoint.other_data)
    refuse_other_data(field_or(reader.scalars(), "fingerprint", scalars_of(*from), Json()), run.data.fingerprint,
                      was.checkpoint);
  Config before = config;
  if (run.files && !changes.empty()) run.log.line("options  those of this run count; {} was made with others:", from->folder);
  for (const OptionChange& c : changes) {
    if (makes_the_rate(c.name)) set_option(before, c.name, c.was);
    if (c.name == "parallel.sum_leaves") continue;  // begin_run() logs its meaning
    std::string meaning = c.rule == OnResume::other_bits ? ": numbers agree closely from here on, not bit for bit" : "";
    if (c.name == "train.steps" && config.schedule.steps == 0)
      meaning = "; the schedule gets longer or shorter with it (schedule.steps would keep its length)";
    run.log.line("changed  {}{}", c.text(), meaning);
  }
  if (const int64_t updates = field_or(reader.scalars(), "optimizer_steps", scalars_of(*from), p.done); updates > 0)
    warn_of_other_rate(run, before, updates, p.done);
  return from;
}

// Continues at the same sample as the run of the checkpoint, also if batch size, sources or weights have changed.
void restore_data_position(const OpenedRun& run, const ResumePoint* point, Progress& p) {
  const int64_t batch = run.config().train.global_batch;
  const CheckpointReader* from = point ? point->reader.get() : nullptr;
  if (from) {
    const Json& s = from->scalars();
    if (s.contains("data"))
      p.history = DataHistory::from_json(s["data"], fmt::format("checkpoint of step {}", from->step()));
    else
      run.data.train->note_sources(
          p.history, 0, field_or(s, "global_batch", fmt::format("checkpoint of step {}: scalars", from->step()), batch));
  }
  size_t before = p.history.segments().size();
  run.data.train->note_sources(p.history, p.done, batch);
  if (from && p.history.segments().size() > before)
    run.log.line("data     another batch, other sources or weights from step {} on, sample {}", p.done + 1,
                 p.history.first_sample(p.done));
  run.data.train->follow(p.history);
}

namespace {

void go_on(const OpenedRun& run, const ResumePoint& from, const std::string& process, Progress& p) {
  const CheckpointReader& reader = *from.reader;
  const Json& s = reader.scalars();
  const auto began = seconds_now();
  const bool whole = restore(*run.engine, reader, run.config().model);
  refuse_not_finite(
      *run.engine, from.folder,
      "go on from an earlier checkpoint, by checkpoint.resume; health.embedding_norm keeps a record of healthy ones");
  const int64_t had = ranks_with_buffers(reader), has = run.engine->optimizer().ranks_with_buffers();
  if (any(run.ranks.all(), !whole))
    run.log.warn(
        "{}: per-rank error buffers of {} rank{} cannot continue on {} rank{}: they restart at zero, and all ranks have the weights of rank 0; results differ slightly",
        checkpoint_name(p.done), had, had == 1 ? "" : "s", has, has == 1 ? "" : "s");
  const double seconds = seconds_now() - began;
  p.line = CheckpointLine::from_scalars(s).gone_on(process, p.done);
  const std::string instructions = run.spec->kernels.instructions;
  if (!reader.instructions().empty() && reader.instructions() != instructions)  // empty: a converted checkpoint
    run.log.warn(
        "the checkpoint was written with {} instructions, this run uses {}: numbers will agree closely, not bit for bit",
        reader.instructions(), instructions);
  const std::string where = scalars_of(from);
  if (int64_t was = field_or(s, "sum_leaves", where, int64_t{1}); was != run.spec->layout.sum_leaves)
    run.log.warn(
        "the checkpoint was made with parallel.sum_leaves={}, this run sums {} leaves: numbers will agree closely, not bit for bit",
        was, run.spec->layout.sum_leaves);
  for (const std::string& key : other_data_options(field_or(s, "fingerprint", where, Json()), run.data.fingerprint))
    run.log.warn("{}: samples are cut otherwise than before the checkpoint, so some text may come again or be left out", key);
  p.spikes.go_on_from(field_or(s, "spikes_in_a_row", where, int64_t{0}));
  if (p.loss_scale && (s.contains("loss_scale") || (!run.files && scaled_losses(s))))
    p.loss_scale->restore(field<Json>(s, "loss_scale", where), p.done, where + ": loss_scale");
  if (follows_validation(run.config().schedule) && s.contains("schedule"))
    p.plateau.restore(field<Json>(s, "schedule", where), where + ": schedule");
  if (s.contains("window")) p.window = StepWindow::from_json(s["window"], where + ": window");
  run.log.line("resume   from {} after step {}, read in {:.2f} s", from.folder, p.done, seconds);
}

}  // namespace

void begin_run(const OpenedRun& run, const ResumePoint* from, const std::string& process, Progress& p) {
  if (from) return go_on(run, *from, process, p);
  p.line.process = process;
  p.frozen_elsewhere = frozen_lie_elsewhere(run, nullptr, "");
  const auto began = seconds_now();
  begin_weights(*run.engine, run.config());
  const ModelOptions& model = run.config().model;
  if (!model.path.empty() || !model.weights.empty())
    run.log.line("weights  from {}, read in {:.2f} s", model.path.empty() ? weights_read_at(model.weights) : model.path,
                 seconds_now() - began);
}

}  // namespace ravine
