#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/parallel.h"
#include "base/text.h"
#include "files/folder_lock.h"
#include "files/atomic.h"
#include "io/huggingface.h"
#include "kernels/backend.h"
#include "train/machine.h"
#include "train/nan_watch.h"
#include "train/stop.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<ParamRule> rules_of(const Config& c) {
  std::vector<ParamRule> rules;
  for (const std::string& f : c.train.freeze) rules.push_back({f, 1, 1, true});
  for (const ParamGroup& g : c.optimizer.groups) rules.push_back({g.match, g.lr_mult, g.wd_mult, false});
  return rules;
}

bool reads_text(const DataOptions& data) {
  for (auto* list : {&data.train, &data.valid})
    for (const DataSource& s : *list)
      if (!s.path.ends_with(".safetensors")) return true;
  return false;
}

}  // namespace

Trainer::Trainer(Config config, const std::string& backend, Log& log) : config_(std::move(config)), backend_(backend), log_(log) { open(); }
Trainer::~Trainer() = default;

std::string Trainer::path(const std::string& name) const { return (fs::path(config_.train.output) / name).string(); }

void Trainer::open() {
  const Config& c = config_;
  if (c.model.path.empty() == c.model.config.empty())
    throw UserError("no model, or two", "model.path, model.config", "exactly one of them must be given",
                    "set model.path=FOLDER to go on from weights, or model.config=FILE.json to start from random ones");
  model_ = open_model(c.model.path.empty() ? c.model.config : c.model.path);
  const ModelFacts& facts = model_->facts();
  apply_rules(model_->params(), rules_of(c));
  types_ = Types::of(compute_type(c.precision, backend_));

  // Before anything is written. Whoever resumes does not need the weights that the run began with.
  const std::string& resume = c.checkpoint.resume;
  if (!c.model.path.empty() && (resume == "none" || (resume == "auto" && !fs::exists(path("checkpoints"))))) check_weights(c.model.path, *model_);
  if (resume != "none" && resume != "auto") CheckpointReader(resume, false);

  DatasetOptions data;
  data.train = c.data.train;
  data.valid = c.data.valid;
  data.valid_fraction = c.data.valid_fraction;
  data.sequence_length = c.data.sequence_length;
  data.text_key = c.data.text_key;
  data.pack = c.data.pack;
  data.document_attention = c.data.document_attention;
  data.append_eos = c.data.append_eos;
  data.shuffle = c.data.shuffle;
  data.seed = static_cast<uint64_t>(c.train.seed);
  data.vocabulary = facts.vocabulary;
  data.threads = static_cast<int>(c.train.threads);
  std::string where = c.model.tokenizer.empty() ? c.model.path : c.model.tokenizer;
  if (reads_text(c.data)) {
    if (where.empty())
      throw UserError("no tokenizer", "model.tokenizer", "text data needs one", "set model.tokenizer to a tokenizer.model or its folder");
    tokenizer_ = open_tokenizer(where);
    if (tokenizer_->size() > facts.vocabulary)
      throw UserError(fmt::format("the tokenizer has {} ids, the model a vocabulary of {}", tokenizer_->size(), facts.vocabulary), where,
                      "every id must have a row in the embedding", "use the tokenizer of this model, or a config with a larger vocab_size");
  }
  if (c.data.sequence_length > facts.max_positions)
    throw UserError(fmt::format("data.sequence_length is {}", c.data.sequence_length), "data.sequence_length",
                    fmt::format("the model has max_position_embeddings = {}", facts.max_positions), "shorten the sequences or change the model's config");
  Datasets sets = open_datasets(data, tokenizer_.get());
  train_data_ = std::move(sets.train);
  valid_data_ = std::move(sets.valid);

  StepShape shape{c.train.micro_batch, train_data_->columns(), div_exact(c.train.global_batch, c.train.micro_batch), valid_data_ != nullptr};
  Kernels kernels = backend_kernels(backend_, bf16_products(c.precision, types_.compute, backend_));
  instructions_ = kernels.instructions;
  engine_ = std::make_unique<StepEngine>(*model_, config_, types_, kernels, shape);
  check_memory();
}

void Trainer::check_memory() const {
  const RunMemory& m = engine_->memory();
  int64_t have = available_memory() + resident_memory();
  if (m.total() <= have) return;
  throw UserError(fmt::format("the run needs {} of memory", human_bytes(static_cast<double>(m.total()))), "memory plan",
                  fmt::format("this machine has {} free", human_bytes(static_cast<double>(have))),
                  "lower train.micro_batch or data.sequence_length, set train.recompute=full, or use a smaller model");
}

void Trainer::announce() const {
  const ModelFacts& f = model_->facts();
  const RunMemory& m = engine_->memory();
  auto mib = [](int64_t b) { return human_bytes(static_cast<double>(b)); };
  auto kind = [&](MemoryKind k) { return mib(m.arena.peak_kind[static_cast<size_t>(k)]); };
  double per_token = model_->training_flops_per_token(train_data_->columns());
  int64_t step_tokens = config_.train.global_batch * train_data_->columns();
  log_.line("model    {}: {} parameters, {} layers, hidden {}, {} heads ({} key/value), vocabulary {}", f.family,
            human_count(static_cast<double>(model_->params().count())), f.layers, f.hidden, f.heads, f.kv_heads, f.vocabulary);
  log_.line("compute  {} on {} ({}, {} threads), peak {:.0f} GFLOP/s", name(types_.compute), backend_, instructions_, thread_count(),
            peak_flops_ * 1e-9);
  log_.line("memory   weights {}, optimizer {}, and at the peak of a step gradients {}, activations {}, workspace {} (arena {}): {} in all",
            mib(m.weights), mib(m.optimizer), kind(MemoryKind::gradients), kind(MemoryKind::activations), kind(MemoryKind::workspace),
            mib(m.arena.total), mib(m.total()));
  log_.line("data     {} sequences of {} tokens{}", train_data_->sample_count(), train_data_->columns(),
            valid_data_ ? fmt::format(", {} held out for validation", valid_data_->sample_count()) : "");
  log_.line("run      {} steps of {} sequences ({} tokens each), {} tokens in all, about {} at sol 0.7", config_.train.steps, config_.train.global_batch,
            step_tokens, human_count(static_cast<double>(step_tokens * config_.train.steps)),
            human_time(static_cast<double>(step_tokens) * static_cast<double>(config_.train.steps - done_) * per_token / (0.7 * peak_flops_)));
}

TrainState Trainer::state() const {
  TrainState s;
  ResidentStore& store = engine_->store();
  std::vector<Optimizer::Moment> moments = engine_->optimizer().moments();
  for (size_t b = 0; b < store.buckets().size(); ++b) {
    const Bucket& bucket = store.buckets()[b];
    auto add = [&](const std::string& kind, const TensorView& flat) {
      if (flat.absent()) return;
      for (const Bucket::Span& span : bucket.spans) {
        const Param& p = *span.param;
        TensorView v = view_of(flat.as<char>() + span.begin * size_of(flat.dtype), flat.dtype, p.shape);
        s.tensors.push_back({kind + "/" + p.name, v, p.shape, std::vector<int64_t>(static_cast<size_t>(p.shape.rank()), 0), bucket.unit->index});
      }
    };
    add("weights", store.flat_master(b));
    for (const Optimizer::Moment& m : moments) add(m.name, m.buckets[b]);
  }
  s.scalars["step"] = done_;
  s.scalars["tokens"] = tokens_;
  s.scalars["optimizer_steps"] = engine_->optimizer().steps();
  s.scalars["optimizer"] = config_.optimizer.type;
  s.scalars["seed"] = config_.train.seed;
  s.scalars["global_batch"] = config_.train.global_batch;
  s.scalars["compute"] = std::string(name(types_.compute));
  s.scalars["sum_leaves"] = 1;
  s.program = "ravine 0.1.0";
  s.instructions = instructions_;
  return s;
}

void Trainer::begin_or_resume() {
  const std::string& resume = config_.checkpoint.resume;
  std::string folder = path("checkpoints");
  std::optional<std::string> from;
  clean_leftovers(folder);
  auto warn = [&](const std::string& text) { log_.warn("{}", text); };
  if (resume == "auto") {
    from = newest_checkpoint(folder, warn);
  } else if (resume == "none") {
    if (fs::exists(folder) && !fs::is_empty(folder))
      throw UserError("train.output already holds checkpoints", config_.train.output, "with checkpoint.resume=none a run begins anew and would mix with them",
                      "choose another train.output, remove the folder, or use checkpoint.resume=auto");
  } else {
    from = resume;
  }
  if (from) {
    CheckpointReader reader(*from, config_.checkpoint.verify);
    const Json& s = reader.scalars();
    auto scalar = [&](const char* key) {
      if (!s.contains(key) || !s[key].is_number_integer()) throw UserError("checkpoint lacks '" + std::string(key) + "'", *from, "it must be a training checkpoint", "choose another one");
      return s[key].get<int64_t>();
    };
    done_ = scalar("step");
    tokens_ = scalar("tokens");
    for (const StateTensor& t : state().tensors) reader.read(t.name, t.view, t.global, t.begin);
    engine_->optimizer().set_steps(scalar("optimizer_steps"));
    if (reader.instructions() != instructions_)
      log_.warn("the checkpoint was written with {} instructions, this run uses {}: numbers will agree closely, not bit for bit",
                reader.instructions(), instructions_);
    if (s.value("seed", config_.train.seed) != config_.train.seed || s.value("global_batch", config_.train.global_batch) != config_.train.global_batch)
      log_.warn("train.seed or train.global_batch differ from those of the checkpoint: the order of the data changes from here on");
    log_.line("resume   from {} after step {}", *from, done_);
  } else if (!config_.model.path.empty()) {
    load_weights(config_.model.path, *model_, engine_->store());
  } else {
    initialise(model_->params(), engine_->store(), static_cast<uint64_t>(config_.train.seed));
  }
  engine_->store().refresh_copies(engine_->ctx());
}

std::optional<double> Trainer::validate() {
  if (!valid_data_) return std::nullopt;
  ExactSum sum;
  int64_t count = 0, rows = config_.train.micro_batch, total = ceil_div(valid_data_->sample_count(), rows);
  if (config_.train.valid_batches > 0) total = std::min(total, config_.train.valid_batches);
  for (int64_t b = 0; b < total; ++b) {
    int64_t n = std::min(rows, valid_data_->sample_count() - b * rows);
    MicroBatch m = make_micro_batch(*valid_data_, b * rows, n);
    auto [loss, valid] = engine_->evaluate(m);
    sum.add(loss);
    count += valid;
  }
  return count > 0 ? std::optional<double>(sum.value() / static_cast<double>(count)) : std::nullopt;
}

void Trainer::save_checkpoint(int64_t step) {
  fs::create_directories(path("checkpoints"));
  writer_->save(path("checkpoints"), step, state(), static_cast<int>(config_.checkpoint.keep));
}

void Trainer::step(int64_t step) {
  double began = now();
  StepBatches batches = loader_->next();
  double waited = now() - began;
  StepReport report;
  report.step = step;
  if (batches.skipped) {
    done_ = step;
    report.skipped = true;
    report.tokens = tokens_;
    for (auto& h : hooks_) h->after_step(*this, report);
    last_ = report;
    return;
  }
  double lr = learning_rate(config_.schedule, config_.optimizer.lr, config_.train.steps, step - 1);
  StepResult r = engine_->run(batches.micro, step, lr, [&](const Unit& u) { writer_->wait_unit(u.index); });
  if (!std::isfinite(r.loss) || !std::isfinite(r.grad_norm)) explain_nan(batches.micro, step, r);
  done_ = step;
  tokens_ += r.tokens;
  report.loss = r.loss;
  report.lr = lr;
  report.grad_norm = r.grad_norm;
  report.tokens = tokens_;
  report.step_time = now() - began;
  report.tokens_per_second = static_cast<double>(r.tokens) / report.step_time;
  report.sol = report.tokens_per_second * model_->training_flops_per_token(train_data_->columns()) / peak_flops_;
  report.memory_mb = static_cast<double>(resident_memory()) / (1 << 20);
  report.wait = waited;
  for (auto& h : hooks_) h->after_step(*this, report);
  last_ = report;
  if (auto warning = writer_->take_warning()) log_.warn("{}", *warning);
}

void Trainer::explain_nan(const std::vector<MicroBatch>& micros, int64_t step, const StepResult& r) {
  std::string what = std::isfinite(r.loss) ? fmt::format("the gradient norm became {}", r.grad_norm) : fmt::format("the loss became {}", r.loss);
  std::string origin = "; set train.find_nan=true to have the first op named";
  if (config_.train.find_nan) {
    NanWatch watch;
    engine_->ctx().add_observer(&watch);
    engine_->run(micros, step, 0, {}, false);
    origin = watch.found().empty() ? "; no op produced it when the step was run again" : "; " + watch.found();
  }
  writer_->wait();
  fail("step {}: {}{}; the weights are those of step {}, the last checkpoint is untouched", step, what, origin, step - 1);
}

void Trainer::export_model() {
  SaveFolder folder;
  folder.dir = path("model");
  folder.shard_bytes = config_.checkpoint.shard_mb * 1000000;
  folder.tokenizer = config_.model.tokenizer.empty() ? config_.model.path : config_.model.tokenizer;
  save_model_folder(folder, *model_, engine_->store());
  log_.line("saved    {}", folder.dir);
}

void Trainer::run() {
  fs::create_directories(config_.train.output);
  lock_ = std::make_unique<FolderLock>(config_.train.output);
  log_.open(path("log.txt"));
  StopSignals signals;
  clear_stop_request(config_.train.output);
  MachinePeaks peaks = machine_peaks();
  peak_flops_ = types_.compute == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops;
  announce();
  engine_->allocate();
  writer_ = std::make_unique<CheckpointWriter>();
  begin_or_resume();
  write_file_atomic(path("config.yaml"), to_yaml(config_));

  hooks_.push_back(validation_hook(config_.train.valid_every));
  hooks_.push_back(metrics_hook(config_.log.every));
  if (config_.log.tensorboard) hooks_.push_back(tensorboard_hook(config_.log.every));
  hooks_.push_back(console_hook(config_.log.every));
  hooks_.push_back(checkpoint_hook(config_.checkpoint.every));
  for (auto& h : hooks_) h->start(*this, done_);
  loader_ = std::make_unique<Loader>(*train_data_, LoaderOptions{config_.train.global_batch, config_.train.micro_batch, done_, config_.data.prefetch,
                                                                 config_.data.skip_steps});
  bool stopped = StopSignals::requested();
  while (done_ < config_.train.steps && !stopped) {
    step(done_ + 1);
    stopped = StopSignals::requested() || stop_requested(config_.train.output);
  }
  stopped = stopped && done_ < config_.train.steps;
  for (auto& h : hooks_) h->finish(*this, stopped);
  writer_->wait();
  if (auto warning = writer_->take_warning()) log_.warn("{}", *warning);
  clear_stop_request(config_.train.output);
  if (stopped) throw Stopped(fmt::format("stopped after step {}, saved; the same command goes on from there", done_));
  export_model();
}

}  // namespace ravine
