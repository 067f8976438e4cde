#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/blocked_signals.h"
#include "base/checked.h"
#include "base/clock.h"
#include "files/atomic.h"
#include "files/compressed.h"
#include "files/direct_file.h"
#include "files/safetensors.h"
#include "files/temporary.h"
#include "io/checkpoint.h"
#include "io/checkpoint_health.h"
#include "io/manifest.h"

namespace fs = std::filesystem;

namespace ravine {

struct CheckpointJob {
  std::string dir;
  int64_t step = 0;
  TrainState state;
  int64_t keep = 0;
  int64_t best = 0;    // the checkpoint of this step stays; 0: none
  std::string digits;  // equal on all ranks, different for each save
  std::string target() const { return dir + "/" + checkpoint_name(step); }
  // Returns the folder that ranks other than 0 write to.
  std::string parts() const { return temporary_path(target() + ".parts", digits); }
};

// The state (damaged or not) of the checkpoints in the folder, by path. The bytes of a checkpoint are read once; sizes
// and headers are checked again each time.
class KnownCheckpoints {
 public:
  void saved(const std::string& path) { sound_[path] = true; }
  // True if the checkpoint counts towards the kept ones of `line`. The fault of a damaged one is appended to `faults`,
  // once.
  bool counts(const std::string& path, const CheckpointLine& line, std::string& faults) {
    auto it = sound_.find(path);
    if (it != sound_.end() && !it->second) return false;
    std::string fault = fault_in_checkpoint(path, it == sound_.end());
    sound_[path] = fault.empty();
    if (!fault.empty()) {
      faults += fmt::format("{}it does not count for checkpoint.keep: {}", faults.empty() ? "" : "; ", fault);
      return false;
    }
    const CheckpointReader reader(path, false);
    return line.holds(CheckpointLine::from_scalars(reader.scalars()).process, reader.step());
  }

 private:
  std::map<std::string, bool> sound_;
};

namespace {

// Bytes of adjacent memory from which padding pays, as the run then needs no copy.
constexpr int64_t kLongRun = int64_t{1} << 20;
constexpr int64_t kMaxPart = int64_t{1} << 30;  // bytes of another rank's manifest
constexpr auto kPoll = std::chrono::milliseconds(5);

// One entry of the file: a tensor of the state, or zeros that align the file position of the next one with its address.
struct FileEntry {
  const StateTensor* tensor = nullptr;
  std::string stored;
  int64_t bytes = 0;
};

Box box_of(const StateTensor& t) {
  std::vector<int64_t> begin = t.begin;
  if (begin.empty()) begin.resize(static_cast<size_t>(t.global.rank()));
  return {begin, t.view.shape};
}

std::vector<FileEntry> lay_out(const std::vector<StateTensor>& tensors) {
  std::vector<FileEntry> out;
  std::unordered_map<std::string, int> seen;
  int64_t at = 0, pads = 0;
  const std::byte* end = nullptr;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto* data = static_cast<const std::byte*>(tensors[i].view.data);
    if (data != end) {
      int64_t run = 0;
      for (size_t j = i; j < tensors.size() && tensors[j].view.data == data + run; ++j) run += tensors[j].view.bytes();
      const int64_t shift =
          static_cast<int64_t>((reinterpret_cast<uintptr_t>(data) - static_cast<uintptr_t>(at)) % DirectFile::kBlock);
      if (run >= kLongRun && shift != 0) {
        out.push_back({nullptr, fmt::format("{}{}", kPadding, pads++), shift});
        at += shift;
      }
    }
    const int copy = seen[tensors[i].name]++;
    out.push_back(
        {&tensors[i], copy == 0 ? tensors[i].name : fmt::format("{}~{}", tensors[i].name, copy), tensors[i].view.bytes()});
    at += out.back().bytes;
    end = data + out.back().bytes;
  }
  return out;
}

std::string header_of(const std::vector<FileEntry>& entries) {
  std::vector<TensorInfo> tensors;
  int64_t at = 0;
  for (const FileEntry& e : entries) {
    tensors.push_back({e.stored, e.tensor ? e.tensor->view.dtype : DType::u8, e.tensor ? e.tensor->view.shape : Shape{e.bytes},
                       at, at + e.bytes});
    at += e.bytes;
  }
  return safetensors_header(tensors, {{"format", "ravine-checkpoint"}}, DirectFile::kBlock);
}

void remove_quietly(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Returns the manifest of this rank alone, without checksums.
Manifest describe(const TrainState& state, int64_t step, const std::vector<FileEntry>& entries, const std::string& file) {
  Manifest m;
  m.step = step;
  m.program = state.program;
  m.instructions = state.instructions;
  m.scalars = state.scalars;
  m.files.push_back({file, 0, 0});
  std::unordered_map<std::string, size_t> by_name;
  std::set<std::string_view> stored;
  for (const FileEntry& e : entries) {
    if (!e.tensor) continue;
    const StateTensor& t = *e.tensor;
    require(stored.insert(e.stored).second,
            "checkpoint: names with '~' and a number are taken for further slices, got '{}' twice", e.stored);
    auto [it, fresh] = by_name.emplace(t.name, m.tensors.size());
    if (fresh) m.tensors.push_back({t.name, t.view.dtype, t.global, {}});
    Manifest::Tensor& to = m.tensors[it->second];
    require(to.dtype == t.view.dtype && to.shape == t.global,
            "checkpoint: slices of '{}' agree on type and global shape, got {} {} and {} {}", t.name, name(to.dtype),
            to.shape.text(), name(t.view.dtype), t.global.text());
    to.slices.push_back({0, e.stored, box_of(t), 0});
  }
  return m;
}

void check_state(const TrainState& state, int ranks) {
  require(state.scalars.is_object(), "checkpoint: scalars are a JSON object, got {}", state.scalars.type_name());
  for (const StateTensor& t : state.tensors) {
    require(t.view.device == DeviceKind::cpu && t.view.contiguous() && (t.view.data || t.view.count() == 0),
            "checkpoint: '{}' lies contiguous in memory, got {} with stride {}", t.name, t.view.shape.text(), t.view.stride);
    require(!t.name.starts_with(kPadding) && t.name != "__metadata__", "checkpoint: the name '{}' is reserved", t.name);
    const Box box = box_of(t);
    bool inside = box.shape.rank() == t.global.rank() && static_cast<int>(box.begin.size()) == t.global.rank();
    for (int d = 0; inside && d < t.global.rank(); ++d) {
      const int64_t from = box.begin[static_cast<size_t>(d)];
      inside = from >= 0 && from <= t.global[d] && box.shape[d] <= t.global[d] - from;
    }
    require(inside, "checkpoint: a slice lies inside its tensor, got '{}' {} in {}", t.name, box.shape.text(), t.global.text());
  }
  if (ranks > 1) return;
  const std::string fault = manifest_fault(describe(state, 0, lay_out(state.tensors), ""));
  require(fault.empty(), "checkpoint: every tensor is covered once, got {}", fault);
}

// Reads the part of rank `r`. Waits for it until it is there, until rank `r` reports a failure, or until `given_up` is
// set.
Manifest wait_for_part(const CheckpointJob& job, int r, const std::atomic<bool>& given_up) {
  const std::string path = fmt::format("{}/part-{:05}.json", job.parts(), r);
  const std::string failed = fmt::format("{}/failed-{:05}", job.parts(), r);
  std::error_code error;
  while (!fs::exists(path, error)) {
    require(!fs::exists(failed, error), "checkpoint: every rank writes its part, rank {} failed", r);
    require(!given_up, "checkpoint: every rank writes its part, that of rank {} is not there and a rank failed", r);
    std::this_thread::sleep_for(kPoll);
  }
  return parse_part(read_whole(path, kMaxPart), path);
}

// Removes older checkpoints and returns warnings. Each is first renamed to a temporary name, so a kill leaves no
// incomplete checkpoint. A checkpoint with foreign files stays, with a warning. If the verdicts cannot be read, none is
// removed: it may be the newest healthy one.
std::string remove_older(const CheckpointJob& job, KnownCheckpoints& known) {
  known.saved(job.target());
  if (job.keep < 1) return "";
  std::vector<int64_t> steps;
  for (const auto& entry : fs::directory_iterator(job.dir))
    if (auto step = checkpoint_step(entry.path().filename().string()); step && *step <= job.step) steps.push_back(*step);
  const bool best_is_older = job.best < job.step && std::find(steps.begin(), steps.end(), job.best) != steps.end();
  const int64_t keep = best_is_older ? std::max<int64_t>(job.keep, 2) : job.keep;  // the newest stays in any case
  if (static_cast<int64_t>(steps.size()) <= keep) return "";
  std::sort(steps.rbegin(), steps.rend());
  const CheckpointLine line = CheckpointLine::from_scalars(job.state.scalars);
  const CheckpointVerdicts verdicts(job.dir);
  std::string stay;
  int64_t kept = best_is_older ? 1 : 0;
  bool healthy = false;
  for (const int64_t step : steps) {
    if (best_is_older && step == job.best) continue;
    const std::string path = job.dir + "/" + checkpoint_name(step);
    if ((kept < keep || !healthy) && known.counts(path, line, stay)) {
      const bool is_healthy = verdicts.healthy(checkpoint_name(step)), stays = kept < keep || is_healthy;
      healthy = healthy || is_healthy;
      kept += stays;
      if (stays) continue;
    } else if (kept < keep) {
      continue;
    }
    if (const std::string foreign = foreign_in_checkpoint(path); !foreign.empty()) {
      stay += fmt::format("{}checkpoint {} stays, it holds '{}', which no checkpoint has", stay.empty() ? "" : "; ",
                          checkpoint_name(step), foreign);
      continue;
    }
    if (!protection_of_checkpoint(path).empty()) {
      stay += fmt::format("{}checkpoint {} stays, it is write-protected", stay.empty() ? "" : "; ", checkpoint_name(step));
      continue;
    }
    const std::string doomed = temporary_path(path, random_digits());
    fs::rename(path, doomed);
    std::error_code error;
    fs::remove_all(doomed, error);
    if (!error) continue;
    const bool back = fault_in_checkpoint(doomed, false).empty() &&
                      ::renameat2(AT_FDCWD, doomed.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0;
    stay += fmt::format("{}an old checkpoint could not be removed ({}): {}", stay.empty() ? "" : "; ", back ? path : doomed,
                        error.message());
  }
  return stay;
}

// Writes `latest`, once the checkpoint has its name. Returns a warning about the effect if the file cannot be written.
// The file is then removed, which needs no disk space; without `latest` the newest checkpoint is used.
std::string name_latest(const CheckpointJob& j) {
  const std::string path = j.dir + "/latest";
  try {
    write_file_atomic(path, checkpoint_name(j.step) + "\n");
    return "";
  } catch (const std::exception& e) {
    const std::string saved = fmt::format("checkpoint {} is saved, but the file '{}' could not be written: {}",
                                          checkpoint_name(j.step), path, e.what());
    std::error_code error;
    fs::remove(path, error);
    if (!error)
      return saved + "; it was removed instead, and the next start goes on from the newest checkpoint, which is this one";
    return fmt::format("{}; it still names an older one, from which the next start goes on unless you say checkpoint.resume={}",
                       saved, j.target());
  }
}

}  // namespace

struct CheckpointWriter::Impl {
  Impl(int rank, int ranks, uint64_t run) : rank(rank), ranks(ranks), run_number(run) {
    require(ranks > 0 && rank >= 0 && rank < ranks, "CheckpointWriter: rank is in [0, {}), got {}", ranks, rank);
    const BlockedSignals blocked;
    thread = std::thread([this] { serve(); });
  }
  ~Impl() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    thread.join();
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || job; });
      if (!job) return;
      lock.unlock();
      std::string problem;
      const double began = seconds_now();
      completed = began;
      bool complete = false;
      try {
        problem = run(*job);
        complete = true;
      } catch (const std::exception& e) {
        problem =
            fmt::format("checkpoint {} was not saved, earlier ones are untouched: {}", checkpoint_name(job->step), e.what());
      }
      lock.lock();
      if (!problem.empty()) warning = problem;
      part_failed = !complete;
      const double seconds = completed - began;
      if (complete && completed > began) saved = CheckpointWriter::Saved{job->step, written, seconds};
      pending.clear();
      job.reset();
      changed.notify_all();
    }
  }

  // Returns a warning if the checkpoint is complete but something else went wrong.
  std::string run(const CheckpointJob& j) {
    if (rank != 0) {
      run_part(j);
      return "";
    }
    struct Parts {  // removed in every case
      std::string path;
      ~Parts() { remove_quietly(path); }
    } parts{j.parts()};
    AtomicFolder folder(j.target());
    Manifest m = write_state(j, folder.folder());
    {
      std::lock_guard lock(mutex);
      part_done = true;
      changed.notify_all();
    }
    for (int r = 1; r < ranks; ++r) {
      const Manifest part = wait_for_part(j, r, given_up);
      for (const auto& f : part.files) fs::rename(parts.path + "/" + f.name, folder.folder() + "/" + f.name);
      merge_part(m, part);
    }
    if (const std::string fault = manifest_fault(m); !fault.empty())
      fail("checkpoint: ranks cover every tensor once, got {}", fault);
    write_file_atomic(folder.folder() + "/manifest.json", write_manifest(m));
    // The checkpoint is complete with its name: any later problem is a warning.
    const std::string name = checkpoint_name(j.step);
    std::string warnings;
    auto warn_on_error = [&](const char* what, const std::function<void()>& work) {
      try {
        work();
      } catch (const std::exception& e) {
        warnings += fmt::format("{}{}: {}", warnings.empty() ? "" : "; ", what, e.what());
      }
    };
    const std::string unwritten = fmt::format("its verdict could not be written to {}", kHealthFile);
    warn_on_error(unwritten.c_str(), [&] { forget_verdict(j.dir, name); });
    folder.commit([](const std::string& replaced) {
      if (const std::string kept = protection_of_checkpoint(replaced); !kept.empty())
        throw UserError("cannot replace checkpoint", kept, "it is write-protected", "move the checkpoint away");
      if (const std::string foreign = foreign_in_checkpoint(replaced); !foreign.empty())
        throw UserError("cannot replace checkpoint", replaced + "/" + foreign, "no checkpoint has such a file", "move it away");
    });
    const std::string problem = name_latest(j);
    completed = seconds_now();
    if (warnings.empty()) warn_on_error(unwritten.c_str(), [&] { record_verdict(j.dir, name, m.scalars); });
    if (!problem.empty())
      // Older ones stay: `latest` may name one of them.
      return warnings.empty() ? problem : problem + "; " + warnings;
    warn_on_error("no older checkpoint was removed", [&] {
      if (const std::string stay = remove_older(j, known); !stay.empty()) warnings += (warnings.empty() ? "" : "; ") + stay;
    });
    return warnings;
  }

  void run_part(const CheckpointJob& j) {
    std::error_code ignored;
    fs::create_directory(j.parts(), ignored);
    try {
      const Manifest m = write_state(j, j.parts());
      write_file_atomic(fmt::format("{}/part-{:05}.json", j.parts(), rank), write_manifest(m));
    } catch (...) {
      remove_quietly(j.parts() + "/" + file());  // frees disk space for the failure mark read by rank 0
      try {
        create_file(fmt::format("{}/failed-{:05}", j.parts(), rank));
      } catch (const std::exception&) {  // rank 0 has given up already
      }
      throw;
    }
  }

  std::string file() const { return fmt::format("state-{:05}.safetensors", rank); }

  Manifest write_state(const CheckpointJob& j, const std::string& folder) {
    const std::vector<FileEntry> entries = lay_out(j.state.tensors);
    Manifest m = describe(j.state, j.step, entries, file());
    std::unordered_map<std::string_view, Manifest::Slice*> slices;
    for (auto& t : m.tensors)
      for (auto& s : t.slices) slices.emplace(s.stored, &s);
    const std::string header = header_of(entries);
    int64_t bytes = static_cast<int64_t>(header.size());
    for (const FileEntry& e : entries) bytes += e.bytes;
    m.files[0].bytes = bytes;
    DirectFile out(folder + "/" + file(), bytes);
    Checksum sum;
    out.append(std::as_bytes(std::span(header)), sum);
    m.files[0].header = sum.value();
    const std::vector<std::byte> zeros(DirectFile::kBlock);
    std::vector<size_t> appended;  // units whose tensors may still be read
    auto settle = [&] {
      out.drain();
      std::lock_guard lock(mutex);
      for (size_t unit : appended) --pending[unit];
      appended.clear();
      changed.notify_all();
    };
    for (const FileEntry& e : entries) {
      if (e.tensor && !appended.empty() && e.tensor->unit != appended.back()) settle();
      sum.reset();
      const std::byte* data = e.tensor ? static_cast<const std::byte*>(e.tensor->view.data) : zeros.data();
      out.append({data, static_cast<size_t>(e.bytes)}, sum);
      if (!e.tensor) continue;
      slices.at(e.stored)->checksum = sum.value();
      appended.push_back(e.tensor->unit);
    }
    settle();
    out.finish();
    written = bytes;
    return m;
  }

  const int rank, ranks;
  const uint64_t run_number;
  uint64_t saves = 0;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::optional<CheckpointJob> job;             // in progress
  std::unordered_map<size_t, int64_t> pending;  // tensors not yet written, per unit
  std::optional<std::string> warning;
  std::optional<CheckpointWriter::Saved> saved;
  bool part_done = false, part_failed = false;  // of the last save
  std::atomic<bool> given_up{false};            // parts of other ranks are no longer awaited
  // Used by the thread alone: bytes of its last file, and the time its checkpoint was complete.
  int64_t written = 0;
  double completed = 0;
  bool stop = false;
  KnownCheckpoints known;
  std::thread thread;
};

CheckpointWriter::CheckpointWriter(int rank, int ranks, uint64_t run) : impl_(std::make_unique<Impl>(rank, ranks, run)) {}
CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::save(const std::string& dir, int64_t step, const TrainState& state, int64_t keep, int64_t best) {
  check_state(state, impl_->ranks);
  checkpoint_name(step);
  try {
    create_folders(dir);
  } catch (const Error&) {  // the thread meets the error again and reports it
  }
  wait();
  std::lock_guard lock(impl_->mutex);
  for (const StateTensor& t : state.tensors) ++impl_->pending[t.unit];
  const std::array<uint64_t, 2> which{impl_->run_number, ++impl_->saves};
  impl_->part_done = impl_->part_failed = impl_->given_up = false;
  impl_->job = CheckpointJob{dir, step, state, keep, best, checksum_text(checksum_of(std::as_bytes(std::span(which))))};
  impl_->changed.notify_all();
}

void CheckpointWriter::wait_unit(size_t unit) {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] {
    auto it = impl_->pending.find(unit);
    return it == impl_->pending.end() || it->second == 0;
  });
}

void CheckpointWriter::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !impl_->job; });
}

bool CheckpointWriter::wait_part() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !impl_->job || impl_->part_done; });
  return !impl_->job && impl_->part_failed;
}

void CheckpointWriter::give_up_parts() { impl_->given_up = true; }

std::optional<std::string> CheckpointWriter::take_warning() {
  std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->warning, std::nullopt);
}

std::optional<CheckpointWriter::Saved> CheckpointWriter::take_saved() {
  std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->saved, std::nullopt);
}

}  // namespace ravine
