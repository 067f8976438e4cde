#include "probe/capture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstring>

#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "files/convert.h"
#include "files/safetensors.h"
#include "runs/open.h"
#include "runs/run_folder.h"
#include "runs/run_state.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr int64_t kMegabyte = 1'000'000;
constexpr int64_t kLargeTensor = 4096;  // smaller tensors are read again: searching would cost as much
constexpr size_t kMostName = 160;       // most bytes of the readable part of a file name
// Tensors from the host: no call writes them.
constexpr const char* kNoCallWrites[] = {"table", "rope", "slopes", "row_weights"};

std::string step_folder(int64_t step, int rank) { return fmt::format("step_{:06}/rank_{}", step, rank); }

// Returns a readable name; other characters become '_'.
std::string file_name_of(const DumpRecord& r) {
  std::string text = fmt::format("{}.{}.{}", name(r.phase), r.path, r.op);
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  return text.substr(0, kMostName);
}

std::vector<int64_t> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

std::vector<double> values_of(const TensorView& v) {
  const std::vector<std::byte> bytes = packed(v);
  std::vector<double> out(static_cast<size_t>(v.count()));
  convert(v.dtype, bytes.data(), DType::f64, out.data(), v.count());
  return out;
}

std::string_view verdict_name(Verdict v) { return v == Verdict::apply ? "apply" : v == Verdict::skip ? "skip" : "stop"; }

}  // namespace

Capture::Capture(const DumpOption& option) : option_(option), steps_(StepRanges::parse(option.steps).value_or(StepRanges())) {
  refuse_other_than_dump(option_.dir);
  if (const std::string owner = run_that_owns(option_.dir); !owner.empty())
    throw UserError(fmt::format("{} lies among what the run in {} keeps", option_.dir, owner), "probe.dump",
                    "a dump is a folder of its own", "choose another dir");
}

bool Capture::wants_path(std::string_view path) const {
  return std::any_of(option_.paths.begin(), option_.paths.end(), [&](const std::string& p) { return glob_match(p, path); });
}

bool Capture::wants_phase(Phase phase) const {
  const std::string_view like = name(phase == Phase::recompute ? Phase::backward : phase);
  return std::find(option_.phases.begin(), option_.phases.end(), like) != option_.phases.end();
}

void Capture::begin(OpenedRun& run, int64_t done) {
  run_ = &run;
  rank_ = run.ranks.rank();
  const OffloadOptions& offload = run.config().offload;
  keeps_figures_ = run.ranks.size() == 1 && offload.params == OffloadTo::none && offload.optimizer == OffloadTo::none;
  if (!option_.ranks.empty() && std::find(option_.ranks.begin(), option_.ranks.end(), rank_) == option_.ranks.end()) return;
  log_ = std::make_unique<DumpLog>(option_.dir, rank_, Json{{"seed", run.config().train.seed}, {"model", run.model->config()}});
  const Mesh& mesh = run.ranks.mesh();
  log_->begin({{"rank", rank_},
               {"ranks", run.ranks.size()},
               {"data", mesh.data},
               {"tensor", mesh.tensor},
               {"pipeline", mesh.pipeline},
               {"zero", run.config().parallel.zero},
               {"compute", name(run.spec->types.compute)},
               {"backend", run.spec->kernels.backend},
               {"instructions", run.spec->kernels.instructions},
               {"recompute", name(run.config().train.recompute)},
               {"seed", run.config().train.seed},
               {"optimizer", name(run.config().optimizer.type)},
               {"what", name(option_.what)},
               {"steps", option_.steps},
               {"done", done},
               {"model", run.model->config()},
               {"options", run.spec->record}});
  if (done == 0 && option_.on == DumpOn::always && steps_.holds(0)) note_state(0);
}

void Capture::begin_step(int64_t step) {
  if (!log_ || !steps_.holds(step)) return;
  step_ = step;
  step_begins_ = log_->size(), tensors_before_ = tensor_bytes_;
  wrote_nan_ = false;
  files_ = 0;
  step_files_.clear();
  written_.clear();
  known_.clear();
  updating_ = false;
  if (state_of_ != step - 1) note_state(step - 1);
  if (log_) run_->engine->ctx().add_observer(this);
}

void Capture::before(const CallInfo& call) {
  if (call.phase == Phase::update) forget_passes();
  if (option_.io != DumpSides::output) note_call(call, false);
}

void Capture::after(const CallInfo& call) {
  forget_written(call);
  if (option_.on == DumpOn::nan && !wrote_nan_)
    for (const NamedView& t : call.tensors)
      if (t.access != Access::read && t.view.data && is_float(t.view.dtype)) wrote_nan_ |= figures_of(t.view, true).nan > 0;
  if (option_.io != DumpSides::input) note_call(call, true);
}

void Capture::note_call(const CallInfo& call, bool output) {
  if (!log_ || call.step != step_ || !wants_phase(call.phase) || !wants_path(call.path)) return;
  std::vector<Noted> noted;
  for (const NamedView& t : call.tensors) {
    if (!t.view.data || t.access == (output ? Access::read : Access::write)) continue;
    DumpRecord r{.step = call.step,
                 .micro = call.micro + 1,
                 .phase = call.phase,
                 .path = std::string(call.path),
                 .op = call.op,
                 .n = call.ordinal,
                 .tensor = t.name,
                 .output = output};
    if (output)
      for (const CallSetting& s : call.settings) r.settings.emplace_back(s.name, s.value);
    if (call.store)
      for (const Param* p : call.store->params_in(t.view)) r.parameters.push_back(p->name);
    noted.push_back({std::move(r), t.view});
  }
  keep(std::move(noted));
}

// Notes parameters and optimizer states after `step`.
void Capture::note_state(int64_t step) {
  if (!wants_phase(Phase::update)) return;
  std::vector<Noted> noted;
  const TrainState state = state_of(*run_->engine);
  for (const StateTensor& t : state.tensors) {
    const size_t slash = t.name.find('/');
    const std::string path = t.name.substr(slash + 1);
    if (!wants_path(path) || !t.view.data) continue;
    DumpRecord r{.step = step,
                 .micro = 1,
                 .phase = Phase::update,
                 .path = path,
                 .op = kStateOp,
                 .tensor = t.name.substr(0, slash),
                 .output = true};
    if (!(t.view.shape == t.global)) r.at = t.begin, r.global = sizes_of(t.global);
    noted.push_back({std::move(r), t.view});
  }
  state_of_ = step;
  keep(std::move(noted));
}

// Forgets all figures at the start of the update: gradients are also finished (joined, reduced) outside of calls.
void Capture::forget_passes() {
  if (!updating_) known_.clear();
  updating_ = true;
}

void Capture::before_update() {
  forget_passes();
  if (step_ == 0 || !log_ || !wants_phase(Phase::update)) return;
  const FlatStore& store = run_->engine->store();
  std::vector<Noted> noted;
  for (size_t b = 0; b < store.buckets().size(); ++b) {
    const Bucket& bucket = store.buckets()[b];
    const TensorView grad = store.owned_grad(b);
    if (grad.absent() || !grad.data) continue;
    for (const Bucket::Span& span : bucket.spans) {
      const int64_t from = std::max(span.begin, bucket.owned.begin),
                    to = std::min(span.begin + span.shape.count(), bucket.owned.begin + bucket.owned.count);
      if (from >= to || !wants_path(span.param->name)) continue;
      const bool whole = to - from == span.shape.count();
      DumpRecord r{.step = step_,
                   .micro = 1,
                   .phase = Phase::update,
                   .path = span.param->name,
                   .op = kGradientOp,
                   .tensor = "grad",
                   .output = true};
      if (!whole)
        r.at = {from - span.begin}, r.global = {span.shape.count()};
      else if (!(span.shape == span.param->shape))
        r.at = span.origin, r.global = sizes_of(span.param->shape);
      noted.push_back({std::move(r), view_of(grad.as<std::byte>() + (from - bucket.owned.begin) * size_of(grad.dtype),
                                             grad.dtype, whole ? span.shape : Shape{to - from})});
    }
  }
  keep(std::move(noted));
}

void Capture::end_step(const StepResult& result, const UpdateRates& rates, double loss_scale) {
  if (step_ == 0) return;
  run_->engine->ctx().remove_observer(this);
  const bool overflow = !std::isfinite(result.loss) || !std::isfinite(result.grad_norm);
  const bool kept = option_.on == DumpOn::always || (option_.on == DumpOn::nan ? wrote_nan_ : overflow);
  if (log_ && kept) {
    note_state(step_);
    if (log_)
      log_->end_step(step_, {.loss = result.loss,
                             .grad_norm = result.grad_norm,
                             .lr = rates.lr,
                             .loss_scale = loss_scale,
                             .verdict = std::string(verdict_name(result.verdict))});
  } else if (log_) {
    drop_step();
  }
  step_ = 0;
}

// Returns the bytes from the first to the last element.
static std::pair<const std::byte*, const std::byte*> extent_of(const TensorView& v) {
  const auto* begin = static_cast<const std::byte*>(v.data);
  const int64_t elements = v.rows() > 0 ? (v.rows() - 1) * v.stride + v.cols() : 0;
  return {begin, begin + elements * size_of(v.dtype)};
}

// True if both views have the same elements of one type in the same order. The shape does not matter for figures.
static bool same_elements(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.dtype == b.dtype && a.count() == b.count() &&
         ((a.contiguous() && b.contiguous()) || (a.stride == b.stride && a.cols() == b.cols()));
}

// True if only calls write the tensor. A tensor of the host or of a collective may be at the address of an earlier one.
bool Capture::only_calls_write(const DumpRecord& r) const {
  if (!keeps_figures_ || !is_float(r.dtype)) return false;
  return !r.parameters.empty() || r.op == kStateOp || r.op == kGradientOp ||
         (r.phase != Phase::update &&
          std::find(std::begin(kNoCallWrites), std::end(kNoCallWrites), r.tensor) == std::end(kNoCallWrites));
}

TensorFigures Capture::figures_of_noted(const Noted& n) {
  const bool keeps = only_calls_write(n.record) && n.view.count() >= kLargeTensor;
  if (keeps)
    for (const Known& k : known_)
      if (same_elements(k.view, n.view)) return k.figures;
  const TensorFigures figures = figures_of(n.view, option_.what != DumpWhat::checksum);
  if (keeps) known_.push_back({n.view, figures});
  return figures;
}

void Capture::forget_written(const CallInfo& call) {
  for (const NamedView& t : call.tensors) {
    if (t.access == Access::read || !t.view.data) continue;
    const auto [begin, end] = extent_of(t.view);
    std::erase_if(known_, [&, begin = begin, end = end](const Known& k) {
      const auto [from, to] = extent_of(k.view);
      return from < end && begin < to;
    });
  }
}

// Host work: computes checksums and statistics of the noted tensors, and writes their records.
void Capture::keep(std::vector<Noted> noted) {
  if (!log_ || noted.empty()) return;
  for (Noted& n : noted) {
    n.record.dtype = n.view.dtype;
    n.record.shape = n.view.shape;
    n.record.figures = figures_of_noted(n);
    if (is_float(n.view.dtype) && n.view.count() <= kFewValues) n.record.values = values_of(n.view);
  }
  try {
    if (option_.what == DumpWhat::tensors && !write_tensors(noted)) return;
    for (const Noted& n : noted) {
      log_->add(n.record);
      ++records_;
    }
  } catch (const Error& e) {
    ended_ = e.what();
    return end_capture(ended_);
  }
  if (option_.limit_mb > 0 && log_->size() + tensor_bytes_ >= option_.limit_mb * kMegabyte)
    end_capture(fmt::format("probe.dump reaches limit_mb={}", option_.limit_mb));
}

// Writes one file with the tensors that no file of this step has. Returns false, and ends the capture, if the limit is
// reached.
bool Capture::write_tensors(std::vector<Noted>& noted) {
  const DumpRecord& first = noted.front().record;
  const std::string folder = step_folder(first.step, rank_);
  const std::string file = fmt::format("{}/{:06}.{}.safetensors", folder, files_, file_name_of(first));
  std::vector<TensorBytes> tensors;
  std::vector<std::vector<std::byte>> memory;
  int64_t bytes = 0;
  for (Noted& n : noted) {
    DumpRecord& r = n.record;
    const auto sums = std::make_tuple(r.figures.order_free, r.figures.positional, r.dtype, r.shape.text());
    const std::string stored = fmt::format("{}/{}/{}", r.path, r.tensor, fmt::join(r.at, ","));
    const auto [it, fresh] = written_.try_emplace(sums, WrittenFile{file, stored});
    r.file = it->second.file, r.stored = it->second.stored;
    if (!fresh) continue;
    memory.push_back(packed(n.view));
    tensors.push_back({stored, r.dtype, r.shape, memory.back()});
    bytes += static_cast<int64_t>(memory.back().size());
  }
  if (tensors.empty()) return true;
  if (option_.limit_mb > 0 && log_->size() + tensor_bytes_ + bytes > option_.limit_mb * kMegabyte) {
    end_capture(fmt::format("probe.dump has no room left in limit_mb={} for {}", option_.limit_mb, first.path));
    return false;
  }
  create_folders(option_.dir + "/" + folder);
  const std::string path = option_.dir + "/" + file;
  if (!fs::exists(path)) step_files_.push_back(path);
  save_safetensors(path, tensors);
  tensor_bytes_ += bytes;
  ++files_;
  return true;
}

// Removes the records and files of the current step. Files of older dumps are kept.
void Capture::drop_step() {
  log_->cut(step_begins_);
  tensor_bytes_ = tensors_before_;
  state_of_ = -1;
  for (const std::string& path : step_files_) ::unlink(path.c_str());
  for (const int64_t step : {step_ - 1, step_}) {  // rmdir removes empty folders only, and no links
    ::rmdir((option_.dir + "/" + step_folder(step, rank_)).c_str());
    ::rmdir(fmt::format("{}/step_{:06}", option_.dir, step).c_str());
  }
}

// Ends the capture; the run continues.
void Capture::end_capture(const std::string& why) {
  const int64_t bytes = log_->size() + tensor_bytes_;
  try {
    log_->limit(bytes, step_);
  } catch (const Error&) {  // the disk has no room for this line either
  }
  log_.reset();
  run_->log.warn("step {}: {}: the dump in {} ends here, at {}, and the run goes on without", step_, why, option_.dir,
                 human_bytes(static_cast<double>(bytes)));
}

}  // namespace ravine
