#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "base/counted.h"
#include "base/parallel.h"
#include "base/program_name.h"
#include "base/text.h"
#include "base/version.h"
#include "files/atomic.h"
#include "files/checksum.h"
#include "files/mapped_file.h"
#include "files/temporary.h"
#include "io/checkpoint_health.h"
#include "io/huggingface.h"
#include "io/model_folder.h"
#include "io/open_weights.h"
#include "kernels/backend.h"
#include "train/advice.h"
#include "train/arithmetic.h"
#include "train/estimate.h"
#include "train/machine.h"
#include "train/open.h"
#include "train/stop.h"
#include "train/variants.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Trainer::Trainer(Config config, const std::string& backend, Log& log, World* world)
    : config_(std::move(config)), backend_(backend), log_(log), world_(world) {
  open();
}
Trainer::~Trainer() = default;

std::string Trainer::path(const std::string& name) const { return (fs::path(config_.train.output) / name).string(); }

void Trainer::open() {
  const Config& c = config_;
  int ranks = world_ ? world_->size() : 1;
  if (world_) check_same(world_->all(), "program", program_version());
  if (world_) check_same(world_->all(), "config", to_yaml(c));
  folder_ = std::make_unique<RunFolder>(c);
  if (world_) world_->all().barrier();  // all have looked before one of them writes
  const std::optional<RunRecord> was = glance_at_checkpoint(path("checkpoints"), c.checkpoint.resume, healthy_only());
  if (world_) check_same(world_->all(), "checkpoint", was ? was->checkpoint : "none");
  if (was) refuse_strangers_in_default(*was, c);
  std::string unknown;
  if (!c.model.path.empty()) try {
      began_with_ = weights_ = weights_checksum(c.model.path);
    } catch (const UserError& e) {
      if (!was) throw;
      unknown = e.what();  // whoever resumes does not need these weights
    }
  model_ = open_run_model(c);
  if (was) refuse_other_model(*was, *model_, c);
  if (world_) check_same(world_->all(), "model", model_->config().dump(1));
  if (world_ && !was)
    check_same(world_->all(), "weights", weights_);  // a copy of the folder on another machine may be an older one
  layout_ = run_layout(c, ranks, *model_, was ? was->sum_leaves : std::nullopt);
  if (world_ && ranks > 1) ranks_ = Ranks(*world_, layout_.mesh);
  if (!ranks_.first()) log_.quiet(true);
  if (!unknown.empty()) log_.warn("what {} holds is not known, and the run goes on without: {}", c.model.path, unknown);
  const Kernels kernels = choose_kernels(was);

  // Before anything is written. Whoever resumes does not need the weights that the run began with.
  const std::string& resume = c.checkpoint.resume;
  if (!c.model.path.empty() &&
      (resume == kResumeNone || (resume == kResumeNewest && checkpoints_to_try(path("checkpoints")).empty())))
    check_weights(c.model.path, *model_);
  if (resume != kResumeNone && resume != kResumeNewest)
    check_checkpoint_folder(resume, "checkpoint.resume"), CheckpointReader(resume, false);

  open_data();
  check_same(ranks_.all(), "data",
             fmt::format("{} sequences of {} tokens, {} tokens in all", train_data_->sample_count(), train_data_->columns(),
                         train_data_->token_count()));
  fingerprint_ = fingerprint_of(c.data, tokenizer_.get());
  check_same(ranks_.all(), "data", fingerprint_.text());
  if (int64_t tokens = c.train.micro_batch * train_data_->columns(); c.parallel.sequence && tokens % layout_.mesh.tensor != 0)
    throw UserError(fmt::format("micro batches of {} tokens over {} tensor ranks", tokens, layout_.mesh.tensor),
                    "parallel.sequence", "with it the tokens of a micro batch must be a multiple of the tensor ranks",
                    "change data.sequence_length, or set parallel.sequence=false");
  const StepShape shape{.rows = c.train.micro_batch,
                        .columns = train_data_->columns(),
                        .micro_batches = layout_.micro_batches,
                        .validation = valid_data_ != nullptr,
                        .leaves = layout_.leaves};
  if (c.parallel.split == StageSplit::cost && layout_.mesh.pipeline > 1)
    config_.parallel.stage_layers = layers_by_cost(*model_, c, types_, kernels, train_data_->columns());
  engine_ = std::make_unique<StepEngine>(*model_, config_, types_, kernels, shape, nullptr, &ranks_);
  check_memory();
  measure_what_is_saved();
  // Where nothing lies yet that a run might clear away, before anything is written.
  std::error_code ignored;
  const bool fresh = ranks_.first() && !fs::exists(path("checkpoints"), ignored);
  if (!was && any(ranks_.all(), fresh)) refuse_without_room(0);
  if (!c.probe.inject.empty()) injection_ = std::make_unique<FaultInjection>(c.probe.inject);
}

namespace {

// A 16-bit type if all weights of model.path have it, else f32, as the masters.
DType export_type(const std::string& model_path) {
  if (model_path.empty()) return DType::f32;
  try {
    const auto type = weights_type(model_path);
    return type && (*type == DType::bf16 || *type == DType::f16) ? *type : DType::f32;
  } catch (const UserError&) {  // a run of a version that did not record the type goes on without the weights it began from
    return DType::f32;
  }
}

}  // namespace

// Works out precision.compute, precision.bf16_products and checkpoint.model_dtype: what they say, else as the checkpoint had
// them, else by the CPUs of all ranks. From here on config_ holds what was chosen.
Kernels Trainer::choose_kernels(const std::optional<RunRecord>& was) {
  PrecisionOptions& p = config_.precision;
  const PrecisionOptions given = p;
  const CpuArithmetic cpu = common_arithmetic(ranks_.all());
  if (was) keep_choices(config_, *was, backend_, cpu);
  const bool kept = p.compute != given.compute || p.bf16_products != given.bf16_products;
  const Arithmetic chosen = choose_arithmetic(p, backend_, cpu);
  types_ = Types::of(chosen.compute);
  p.compute = chosen.compute;
  if (chosen.compute == DType::bf16 && backend_ == "cpu") p.bf16_products = chosen.products;
  const bool chose = kept || !chosen.why.empty();
  why_ = !chose ? ""
                : fmt::format(
                      "{}{}: {}", name(chosen.compute),
                      chosen.compute == DType::bf16 ? fmt::format(", products by {}", name_or(p.bf16_products, kAuto)) : "",
                      kept ? "as in " + was->checkpoint : chosen.why);
  if (!config_.checkpoint.model_dtype) config_.checkpoint.model_dtype = export_type(config_.model.path);
  config_text_ = to_yaml(config_);
  options_ = recorded_options(config_, layout_.mesh.data, layout_.sum_leaves);
  if (was) refuse_other_options(*was, option_changes(*was, options_, weights_), config_);
  Kernels kernels = backend_kernels(backend_, chosen.products);
  instructions_ = kernels.instructions;
  return kernels;
}

// Of several ranks all write their parts of checkpoints into one folder: each makes a file in one that the first has made,
// which looks for them. `digits`: the same on all ranks.
void Trainer::check_shared(const std::string& digits) {
  const Group& all = ranks_.all();
  if (all.size() == 1) return;
  constexpr double kSeconds = 10;  // that another host may take to see a new file
  const std::string folder = temporary_path(path("ranks"), digits);
  auto file_of = [&](int rank) { return fmt::format("{}/{}", folder, rank); };
  auto seen = [](const std::string& what) {
    std::error_code error;
    for (const double began = now(); !fs::exists(what, error); std::this_thread::sleep_for(std::chrono::milliseconds(20)))
      if (now() - began > kSeconds) return false;
    return true;
  };
  std::string problem;
  if (ranks_.first()) fs::create_directory(folder);
  all.barrier();
  try {
    if (!seen(folder))
      problem = "does not see there what the first rank writes";
    else
      create_file(file_of(ranks_.rank()));
  } catch (const std::exception& e) {
    problem = fmt::format("cannot write there: {}", e.what());
  }
  std::vector<std::string> problems = gather_texts(all, problem);
  const std::vector<std::string> hosts = gather_texts(all, world_->host());
  std::string unseen;
  if (ranks_.first()) {
    for (int r = 1; r < all.size() && unseen.empty(); ++r)
      if (problems[static_cast<size_t>(r)].empty() && !seen(file_of(r))) unseen = std::to_string(r);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  if (unseen = gather_texts(all, unseen)[0]; !unseen.empty())
    problems[std::stoul(unseen)] = "writes there what the first rank does not see";
  for (size_t r = 0; r < problems.size(); ++r)
    if (!problems[r].empty())
      throw UserError(fmt::format("rank {} ({}) {}", r, hosts[r], problems[r]), config_.train.output,
                      fmt::format("all ranks write their parts of checkpoints into one folder, that of rank 0 ({})", hosts[0]),
                      "set train.output to a folder that all ranks share and may write to");
}

// Of several ranks the first makes tokens of text; the others find them where it keeps them for the next start.
void Trainer::open_data() {
  const Config& c = config_;
  if (ranks_.size() > 1 && !ranks_.first()) ranks_.all().barrier();
  double last = now();
  Sources sources = open_sources(c, model_->facts(), [&](const TokenizeProgress& p) {
    if (now() - last < 5) return;
    last = now();
    log_.line("tokens   {} of {} read, {} of text, {} tokens", p.files_done, counted(p.files, "file"),
              human_bytes(static_cast<double>(p.text_bytes)), human_count(static_cast<double>(p.tokens)));
  });
  tokenizer_ = std::move(sources.tokenizer);
  train_data_ = std::move(sources.data.train);
  valid_data_ = std::move(sources.data.valid);
  if (follows_validation(c.schedule) && !valid_data_)
    throw UserError(fmt::format("schedule.type is {}, and there is nothing to validate on", name(c.schedule.type)),
                    "schedule.type", "the rate follows the validation loss",
                    "set data.valid or data.valid_fraction, or another schedule.type");
  tokens_in_use_ = std::move(sources.data.tokens);
  data_notes_ = std::move(sources.data.notes);
  data_warnings_ = std::move(sources.data.warnings);
  end_token_ = sources.data.end_token;
  chat_template_ = std::move(sources.data.chat_template);
  if (ranks_.size() == 1 || !ranks_.first()) return;
  if (!tokens_in_use_.empty()) {
    folder_->hold();
    keep_tokens();
  }
  ranks_.all().barrier();
}

void Trainer::keep_tokens() {
  if (tokens_in_use_.empty()) return;
  try {
    save_tokens(path("tokens"), tokens_in_use_);
  } catch (const DiskFull& e) {
    log_.warn("tokens are not kept for the next start: {}", e.what());
  }
}

void Trainer::report_saves() {
  bool saved = false;
  if (auto s = writer_->take_saved()) {
    saved = true;
    saved_ = s->step;
    if (ranks_.first()) folder_->note_saved(s->step);
    warn_of_health(s->step);
    log_.line("saved    {}: {} in {:.2f} s, {:.2f} GB/s", checkpoint_name(s->step), human_bytes(static_cast<double>(s->bytes)),
              s->seconds, 1e-9 * static_cast<double>(s->bytes) / s->seconds);
  }
  if (auto warning = writer_->take_warning()) {
    if (!saved) not_saved_ = *warning;
    const int64_t every = config_.checkpoint.every,
                  next = every > 0 ? std::min(config_.train.steps, (done_ / every + 1) * every) : 0;
    log_.warn("{}{}", *warning,
              saved || next <= done_ ? "" : fmt::format("; the next is tried after step {}, or when the run stops", next));
  }
}

bool Trainer::is_saved(int64_t step) {
  wait_for_save();
  report_saves();
  return !any(ranks_.all(), ranks_.first() && saved_ != step);  // of ranks, the first knows whether the whole is there
}

// All ranks call it. One whose part failed, and that could not say so in the folder, tells the first here.
void Trainer::wait_for_save() {
  if (any(ranks_.all(), writer_->wait_part())) writer_->give_up_parts();
  writer_->wait();
}

void Trainer::warn_of_health(int64_t step) {
  const auto verdict = unhealthy_.find(step);
  if (verdict == unhealthy_.end()) return;
  if (verdict->second)
    log_.warn(
        "{} is unhealthy: embedding_local_norm is above health.embedding_norm={} on a rank of the first stage; a resume takes an older one",
        checkpoint_name(step), config_.health.embedding_norm);
  unhealthy_.erase(verdict);
}

namespace {

// What is offered leaves this much free: the program's own memory is not the same byte for byte in the next process.
constexpr int64_t kSpare = int64_t{2} << 20;

}  // namespace

// Said by all ranks as the first finds it that has too little.
void Trainer::check_memory() {
  const RunMemory& m = engine_->memory();
  int64_t have = memory_for_run() / std::max(1, world_ ? world_->local_size() : 1);
  auto text = [](int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  std::string what, fix;
  if (m.total() > have) {
    what = fmt::format("the run needs {} of memory{}", text(m.total()),
                       ranks_.size() > 1 ? fmt::format(" on rank {}", ranks_.rank()) : "");
    bool fixed = !tokenizer_;  // the length of fixed batches is not ours to choose
    Variants variants(config_, backend_, types_, *engine_, !fixed);
    for (const Variant& v : variants.that_fit(have - kSpare, 3))
      fix += (fix.empty() ? "what fits, cheapest first: " : "; or ") + v.text();
    if (fix.empty()) {
      Variant least = variants.smallest();
      fix = fmt::format(
          "no train.micro_batch, train.recompute{} or precision.compute makes it fit, the least is {}; use a smaller model or a larger machine",
          fixed ? "" : ", data.sequence_length", least.changes.empty() ? text(least.bytes) : least.text());
    }
  }
  std::vector<std::string> whats = gather_texts(ranks_.all(), what), fixes = gather_texts(ranks_.all(), fix),
                           limits = gather_texts(ranks_.all(), "this process has " + text(have) + " at most");
  for (size_t r = 0; r < whats.size(); ++r)
    if (!whats[r].empty()) throw UserError(whats[r], "memory plan", limits[r], fixes[r]);
}

std::optional<double> Trainer::validate() {
  if (!valid_data_) return std::nullopt;
  ExactSum loss;
  int64_t count = 0, rows = config_.train.micro_batch, total = ceil_div(valid_data_->sample_count(), rows);
  if (config_.train.valid_batches > 0) total = std::min(total, config_.train.valid_batches);
  // Data ranks take turns, and all of them make as many: blocks may be gathered from all.
  const Group& data = ranks_.along(Axis::data);
  for (int64_t round = 0; round < ceil_div(total, data.size()); ++round) {
    int64_t b = round * data.size() + data.rank(), real = std::min(b, total - 1);
    int64_t n = std::min(rows, valid_data_->sample_count() - real * rows);
    MicroBatch m = make_micro_batch(*valid_data_, real * rows, n);
    auto [mine, valid] = engine_->evaluate(m);
    if (b >= total) continue;
    loss.add(mine);
    count += valid;
  }
  std::vector<int64_t> counts = gather_integers(data, count);
  count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  double all = sum(ranks_.all(), loss).value();
  return count > 0 ? std::optional<double>(all / static_cast<double>(count)) : std::nullopt;
}

void Trainer::follow(double validation_loss) {
  if (!follows_validation(config_.schedule)) return;
  const double was = plateau_.rate();
  plateau_.observe(validation_loss);
  if (plateau_.rate() != was)
    log_.line("rate     {:.4g}, was {:.4g}: schedule.type={} follows the validation loss", plateau_.rate(), was,
              name(config_.schedule.type));
}

void Trainer::save_checkpoint(int64_t step) {
  wait_for_save();
  if (ranks_.first()) folder_->check_there();
  check_mapped_files();  // what was learned from zeros is not saved
  if (const double limit = config_.health.embedding_norm; limit > 0) {
    const bool judged = ranks_.mesh().pipeline > 1 && ranks_.at().pipeline == 0;
    unhealthy_[step] = any(ranks_.all(), judged && !(embedding_squares(*engine_) <= limit));  // of one that is not finite too
  }
  TrainState s = state();
  if (const auto verdict = unhealthy_.find(step); verdict != unhealthy_.end()) s.scalars[kUnhealthy] = verdict->second;
  writer_->save(path("checkpoints"), step, s, config_.checkpoint.keep);
}

void Trainer::step(int64_t step) {
  meter_.begin(ranks_);
  if (ranks_.first()) folder_->check_there();
  double began = now();
  StepBatches batches = loader_->next();
  double waited = now() - began;
  StepReport report;
  report.step = step;
  if (batches.skipped) {
    done_ = step;
    report.left_out = report.skipped = true;
    report.tokens = tokens_;
    for (auto& h : hooks_) h->after_step(*this, report);
    last_ = report;
    report_saves();
    return;
  }
  const double lr = follows_validation(config_.schedule) ? plateau_.rate()
                                                         : learning_rate(config_.schedule, config_.optimizer.lr,
                                                                         config_.train.steps, engine_->optimizer().steps());
  if (injection_) injection_->begin_step(step);
  StepResult r = engine_->run(
      batches.micro, step, lr, [&](const Unit& u) { writer_->wait_unit(u.index); },
      [&](double loss, double norm) { return spikes_.judge(loss, norm); });
  if (injection_ && !injection_->missed().empty())
    log_.warn("step {}: probe.inject found no call of {}", step, injection_->missed());
  if (config_.health.skip_norm > 0)
    note_verdict(r, step);
  else if (r.verdict == Verdict::stop)
    explain_nan(batches.micro, step, r);
  done_ = step;
  tokens_ += r.tokens;
  report.skipped = r.verdict == Verdict::skip;
  report.loss = r.loss;
  report.lr = lr;
  report.grad_norm = r.grad_norm;
  report.tokens = tokens_;
  report.step_time = now() - began;
  report.tokens_per_second = static_cast<double>(r.tokens) / report.step_time;
  report.valid = r.valid;
  report.sol = report.tokens_per_second * model_->training_flops_per_token(train_data_->columns()) / peak_flops_;
  report.memory_mb = static_cast<double>(resident_memory()) / (1 << 20);
  report.wait = waited;
  report.ranks = ranks_.size();
  report.traffic = meter_.end(ranks_, report.step_time);
  if (!report.skipped) window_.add(r.loss, r.valid, r.tokens, report.step_time);
  report.window = window_;
  if (config_.health.embedding_norm > 0) report.embedding_local_norm = embedding_squares(*engine_);
  if (!config_.log.local_norms.empty()) report.local_norms = gather_local_norms(*engine_, config_.log.local_norms);
  for (auto& h : hooks_) h->after_step(*this, report);
  last_ = report;
  report_saves();
}

// Of a step that health.skip_norm has judged. The lines are MindFormers', so that what reads its logs reads ours.
void Trainer::note_verdict(const StepResult& r, int64_t step) {
  if (r.verdict == Verdict::apply) return;
  const double limit = config_.health.skip_norm;
  log_.line("opt_global_step: {}, skip_data_grad_norm_threshold: {}, is_skip: [ True]", engine_->optimizer().steps(), limit);
  const std::string what =
      fmt::format("Current global norm [{}] of step {} has been {} consecutive times greater than threshold", r.grad_norm, step,
                  spikes_.in_a_row());
  if (r.verdict == Verdict::stop) {
    wait_for_save();
    fail("{} {}, stop training (health.skip_count={}); the weights are those of step {}, the last checkpoint is untouched",
         what, limit, config_.health.skip_count, step - spikes_.in_a_row());
  }
  log_.line("{}: {}", what, limit);
}

// What a signal answers during the next step: that it is heard, how long it may take, and what a second one costs.
void Trainer::say_what_stops() const {
  if (!ranks_.first()) return;
  const std::string again = saved_.value_or(0) > 0 ? fmt::format("loses what came after {}", checkpoint_name(*saved_))
                                                   : "loses the whole run: nothing is saved yet";
  const double seconds = last_ && last_->step_time > 0 ? last_->step_time : step_seconds_;
  StopSignals::say_when_asked(
      fmt::format("stopping: step {} is finished and saved first (a step takes {}); Ctrl-C again ends at once and {}",
                  done_ + 1, roughly(seconds), again),
      fmt::format("ended at once: {}", saved_.value_or(0) > 0
                                           ? fmt::format("what came after {} is not saved; {} goes on from there",
                                                         checkpoint_name(*saved_), command_that_goes_on())
                                           : std::string("nothing was saved, the same command begins again")));
}

bool Trainer::stop_wanted() const {
  return any(ranks_.all(), StopSignals::requested() || (ranks_.first() && stop_requested(config_.train.output)));
}

void Trainer::run() {
  if (ranks_.first()) {
    folder_->hold();
    log_.open(path("log.txt"));
    if (ranks_.size() == 1) keep_tokens();
  }
  StopSignals signals;
  if (ranks_.first())
    StopSignals::say_when_asked(
        "stopping: before the first step, as soon as all is opened; Ctrl-C again ends at once, and nothing is lost",
        "ended at once: no step was made, nothing is lost");
  ranks_.all().barrier();
  const std::unique_ptr<CheckpointReader> from = find_checkpoint();
  if (from && is_complete()) return;
  double peak = 0;
  if (ranks_.first()) {
    MachinePeaks peaks = machine_peaks(Peaks::arithmetic);
    peak = types_.compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  }
  // Of all ranks; those that share cores have them once.
  int local = world_ ? world_->local_size() : 1, cores = static_cast<int>(std::thread::hardware_concurrency());
  double share = std::min(1.0, static_cast<double>(cores) / (local * thread_count()));
  peak_flops_ =
      static_cast<double>(largest(ranks_.all(), std::llround(peak * ranks_.size() * (ranks_.size() > 1 ? share : 1.0))));
  announce();
  engine_->allocate();
  if (injection_) engine_->ctx().add_observer(injection_.get());
  const uint64_t number = ranks_.first() ? std::stoull(random_digits(), nullptr, 16) : 0;
  const auto shared = static_cast<uint64_t>(gather_integers(ranks_.all(), static_cast<int64_t>(number))[0]);
  check_shared(checksum_text(shared));
  writer_ = std::make_unique<CheckpointWriter>(ranks_.rank(), ranks_.size(), shared);
  line_.process = checksum_text(shared);
  begin(from.get());
  if (done_ > 0) saved_ = done_;
  check_disk();
  if (ranks_.first()) folder_->write_config(config_text_);

  hooks_.push_back(validation_hook(config_.train.valid_every));
  if (ranks_.first()) {
    hooks_.push_back(metrics_hook(config_.log.every));
    if (config_.log.tensorboard) hooks_.push_back(tensorboard_hook(config_.log.every));
    hooks_.push_back(console_hook(config_.log.every));
  }
  hooks_.push_back(window_hook(config_.log.every));
  hooks_.push_back(checkpoint_hook(config_.checkpoint.every));
  for (auto& h : hooks_) h->start(*this, done_);
  LoaderOptions loading{.global_batch = config_.train.global_batch,
                        .micro_batch = config_.train.micro_batch,
                        .first_step = done_,
                        .prefetch = config_.data.prefetch,
                        .skip_steps = config_.data.skip_steps,
                        .rank = ranks_.at().data,
                        .ranks = ranks_.mesh().data,
                        .round_robin = layout_.round_robin,
                        .history = history_};
  loader_ = std::make_unique<Loader>(*train_data_, loading);
  bool stopped = stop_wanted();
  while (done_ < config_.train.steps && !stopped) {
    say_what_stops();
    step(done_ + 1);
    stopped = stop_wanted();
  }
  stopped = stopped && done_ < config_.train.steps;
  if (ranks_.first())
    StopSignals::say_when_asked(
        "all steps are done: what is left to write is written first; Ctrl-C again ends at once, and the same command goes on from the last checkpoint",
        fmt::format("ended at once: {} goes on from the last checkpoint", command_that_goes_on()));
  for (auto& h : hooks_) h->finish(*this, stopped);
  wait_for_save();
  report_saves();
  if (ranks_.first()) clear_stop_request(config_.train.output);
  if (stopped) end_stopped();
  if (ranks_.first()) folder_->check_there();
  const std::string lost = what_is_lost();
  if (ranks_.first()) fs::remove(path("exported"));
  export_model();
  try {  // without it the next start exports again
    if (ranks_.first() && fs::exists(path("checkpoints/" + checkpoint_name(done_))))
      write_file_atomic(path("exported"), fmt::format("{} {}\n", checkpoint_name(done_), export_text()));
  } catch (const DiskFull& e) {
    log_.warn("{}", e.what());
  }
  if (!lost.empty()) fail("{}", lost);
}

}  // namespace ravine
