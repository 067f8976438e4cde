// Trainer: what a checkpoint says of a run, and how a run goes on from one.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/counted.h"
#include "base/version.h"
#include "io/checkpoint_health.h"
#include "train/open.h"
#include "train/trainer.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

double time_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

TrainState Trainer::state() const {
  TrainState s = state_of(*engine_, frozen_elsewhere_ ? StateFor::writing_trained : StateFor::writing);
  s.scalars["step"] = done_;
  s.scalars["tokens"] = tokens_;
  s.scalars["optimizer"] = name(config_.optimizer.type);
  s.scalars["seed"] = config_.train.seed;
  s.scalars["global_batch"] = config_.train.global_batch;
  s.scalars["compute"] = std::string(name(types_.compute));
  s.scalars["sum_leaves"] = layout_.sum_leaves;
  s.scalars["layout"] = {{"data", layout_.mesh.data},
                         {"tensor", layout_.mesh.tensor},
                         {"pipeline", layout_.mesh.pipeline},
                         {"zero", config_.parallel.zero},
                         {"sequence", config_.parallel.sequence},
                         {"virtual", config_.parallel.virtual_stages},
                         {"stage_layers", layers_of_parts(*model_, config_)},
                         {"micro_batches", layout_.micro_batches}};
  s.scalars["data"] = history_.json();
  s.scalars["fingerprint"] = fingerprint_.json();
  s.scalars["options"] = options_;
  s.scalars["model"] = model_->config();
  s.scalars["weights"] = began_with_;
  if (frozen_elsewhere_)
    for (const Param& p : model_->params().params())
      if (!p.tied && !p.trainable) s.scalars["frozen"].push_back(p.name);
  s.scalars["line"] = line_.json();
  if (window_.steps > 0) s.scalars["window"] = window_.json();
  if (follows_validation(config_.schedule)) s.scalars["schedule"] = plateau_.state();
  if (spikes_.in_a_row() > 0) s.scalars["spikes_in_a_row"] = spikes_.in_a_row();
  s.program = program_version();
  s.instructions = instructions_;
  return s;
}

TakesCheckpoint Trainer::healthy_only() const {
  if (config_.health.embedding_norm == 0 || config_.checkpoint.resume != kResumeNewest) return {};
  const std::string folder = path("checkpoints");
  const CheckpointVerdicts verdicts(folder);
  const std::vector<std::string> all = checkpoints_to_try(folder);
  std::set<std::string> good;
  for (const std::string& checkpoint : all)
    if (const std::string name = fs::path(checkpoint).filename().string(); verdicts.healthy(name)) good.insert(name);
  if (good.empty() && !all.empty())
    throw UserError(
        "no healthy checkpoints", folder,
        fmt::format("by {} and their own verdicts none of the {} there is healthy, and health.embedding_norm={} asks for one",
                    kHealthFile, all.size(), config_.health.embedding_norm),
        fmt::format(
            "train again (checkpoint.resume=none, or another train.output), raise health.embedding_norm if it is too small, or name one: checkpoint.resume={}",
            all[0]));
  return [good](const std::string& name) { return good.count(name) > 0; };
}

std::unique_ptr<CheckpointReader> Trainer::find_checkpoint() {
  const std::string& resume = config_.checkpoint.resume;
  std::string folder = path("checkpoints");
  std::optional<std::string> from;
  if (ranks_.first()) clean_leftovers(folder);
  auto warn = [&](const std::string& text) { log_.warn("{}", text); };
  if (resume == kResumeNewest) {
    if (ranks_.first()) from = newest_checkpoint(folder, warn, healthy_only(), config_.checkpoint.verify);
    if (std::string found = gather_texts(ranks_.all(), from.value_or(""))[0]; !found.empty()) from = found;
  } else if (resume == kResumeNone) {
    return nullptr;
  } else {
    from = resume;
  }
  if (!from) return nullptr;
  auto reader = std::make_unique<CheckpointReader>(*from, config_.checkpoint.verify && resume != kResumeNewest &&
                                                              ranks_.first());  // newest_checkpoint has looked at its find
  from_ = *from;
  done_ = checkpoint_scalar(*reader, "step");
  tokens_ = checkpoint_scalar(*reader, "tokens");
  // Once more: it may be another than the one that was glanced at.
  const RunRecord was =
      run_record(checkpoint_name(done_), done_, reader->scalars(), reader->instructions(), from_ + "/manifest.json: scalars");
  refuse_other_model(was, *model_, config_);
  const std::vector<OptionChange> changes = option_changes(was, options_, weights_);
  refuse_other_options(was, changes, config_);
  if (!was.weights.empty()) began_with_ = was.weights;
  place_frozen(reader.get(), &was);
  if (!was.weights.empty() && !weights_.empty() && was.weights != weights_)  // at another path it is refused
    log_.warn("{} holds other weights than when this run began: it goes on with those of {}, and not with these",
              config_.model.path, was.checkpoint);
  if (!config_.checkpoint.other_data)
    refuse_other_data(field_or(reader->scalars(), "fingerprint", from_ + "/manifest.json: scalars", Json()), fingerprint_,
                      was.checkpoint);
  for (const OptionChange& c : changes) {
    if (c.name == "parallel.sum_leaves") continue;  // begin() says what it means
    std::string meaning = c.rule == OnResume::other_bits ? ": numbers agree closely from here on, not bit for bit" : "";
    if (c.name == "train.steps" && config_.schedule.steps == 0)
      meaning = "; the schedule gets longer or shorter with it (schedule.steps would keep its length)";
    log_.line("changed  {}{}", c.text(), meaning);
  }
  return reader;
}

void Trainer::place_frozen(const CheckpointReader* from, const RunRecord* was) {
  const auto& all = model_->params().params();
  if (std::all_of(all.begin(), all.end(), [](const Param& p) { return p.trainable; })) return;
  if (!from) {
    frozen_elsewhere_ = !weights_.empty();
    return;
  }
  frozen_elsewhere_ = !was->weights.empty() && was->weights == weights_;
  const std::vector<std::string> lacks = left_out_of(*from, *model_);
  if (lacks.empty() || frozen_elsewhere_) return;
  const bool there = !weights_.empty();
  throw UserError(
      there ? fmt::format("{} holds other weights than when this run began", config_.model.path)
            : "the weights that this run began with are not there",
      from_,
      fmt::format(
          "of {} frozen parameter{} ({}{}) it holds none: a run that begins from model.path keeps frozen weights there alone",
          lacks.size(), lacks.size() > 1 ? "s" : "", lacks[0], lacks.size() > 1 ? ", .." : ""),
      there ? "put the weights of then back, or set model.path to where they are now"
            : "set model.path to the folder that this run began with, wherever it is now");
}

bool Trainer::is_complete() {
  std::ifstream in(path("exported"));
  std::string of, as;
  in >> of;
  const int64_t exported_step = checkpoint_step(of).value_or(0), to = std::max(done_, config_.train.steps);
  std::error_code error;
  std::string shorter;  // a model of more steps than this run would come to is not replaced unasked
  if (ranks_.first() && config_.checkpoint.resume == kResumeNewest && exported_step > to && fs::exists(path("model"), error))
    shorter = fmt::format("what can be gone on from is {}, and {} is gone or damaged: the model would be replaced by one of {}",
                          from_, of, counted(to, "step"));
  if (shorter = gather_texts(ranks_.all(), shorter)[0]; !shorter.empty())
    throw UserError(
        fmt::format("train.output holds a finished model of {}", counted(exported_step, "step")), path("model"), shorter,
        fmt::format("put {} back, train its steps again by train.steps={}, or move the model away", of, exported_step));
  if (done_ < config_.train.steps) return false;
  const bool named = of == checkpoint_name(done_);
  const bool exported =
      named && (!(in >> std::ws && std::getline(in, as)) || as == export_text());  // an older version names the checkpoint only
  const std::string trouble = ranks_.first() && exported ? folder_->export_trouble() : "";
  const bool all = any(ranks_.all(), ranks_.first() && exported && trouble.empty());
  const std::string steps = done_ == config_.train.steps
                                ? fmt::format("{} of {}", done_, counted(done_, "step"))
                                : fmt::format("{}, train.steps is {}", counted(done_, "step"), config_.train.steps);
  std::string more = all ? fmt::format(" and {}: nothing is left to do; a larger train.steps goes on", path("model")) : "";
  if (!trouble.empty()) more = fmt::format("; {}: the model is exported again", trouble);
  log_.line("complete: {}, saved in {}{}", steps, from_, more);
  return all;
}

void Trainer::begin(const CheckpointReader* from) {
  if (from) {
    const CheckpointReader& reader = *from;
    const Json& s = reader.scalars();
    double began = time_now();
    restore(*engine_, reader, config_.model.path);
    double seconds = time_now() - began;
    line_ = CheckpointLine::from_scalars(s).gone_on(line_.process, done_);
    if (!reader.instructions().empty() && reader.instructions() != instructions_)  // empty: converted
      log_.warn(
          "the checkpoint was written with {} instructions, this run uses {}: numbers will agree closely, not bit for bit",
          reader.instructions(), instructions_);
    const std::string where = from_ + "/manifest.json: scalars";
    if (int64_t was = field_or(s, "sum_leaves", where, int64_t{1}); was != layout_.sum_leaves)
      log_.warn(
          "the checkpoint was made with parallel.sum_leaves={}, this run sums {} leaves: numbers will agree closely, not bit for bit",
          was, layout_.sum_leaves);
    for (const std::string& key : other_data_options(field_or(s, "fingerprint", where, Json()), fingerprint_))
      log_.warn("{}: samples are cut otherwise than before the checkpoint, so some text may come again or be left out", key);
    spikes_.go_on_from(field_or(s, "spikes_in_a_row", where, int64_t{0}));
    if (follows_validation(config_.schedule) && s.contains("schedule"))
      plateau_.restore(field<Json>(s, "schedule", where), where + ": schedule");
    if (s.contains("window")) window_ = StepWindow::from_json(s["window"], where + ": window");
    place_data(&reader);
    log_.line("resume   from {} after step {}, read in {:.2f} s", from_, done_, seconds);
  } else {
    place_frozen(nullptr, nullptr);
    place_data(nullptr);
    double began = time_now();
    begin_weights(*engine_, config_);
    if (!config_.model.path.empty()) log_.line("weights  from {}, read in {:.2f} s", config_.model.path, time_now() - began);
  }
}

// Goes on where the checkpoint's run was among the samples, though batch size, sources or weights may be others now.
void Trainer::place_data(const CheckpointReader* from) {
  if (from) {
    const Json& s = from->scalars();
    if (s.contains("data"))
      history_ = DataHistory::from_json(s["data"], fmt::format("checkpoint of step {}", from->step()));
    else
      train_data_->note_sources(
          history_, 0,
          field_or(s, "global_batch", fmt::format("checkpoint of step {}: scalars", from->step()), config_.train.global_batch));
  }
  size_t before = history_.segments().size();
  train_data_->note_sources(history_, done_, config_.train.global_batch);
  if (from && history_.segments().size() > before)
    log_.line("data     another batch, other sources or weights from step {} on, sample {}", done_ + 1,
              history_.first_sample(done_));
  train_data_->follow(history_);
}

}  // namespace ravine
