#include "train/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/clock.h"
#include "base/counted.h"
#include "files/checksum.h"
#include "files/safetensors.h"
#include "io/huggingface.h"
#include "io/open_weights.h"
#include "parallel/initialise.h"
#include "runs/open.h"

namespace ravine {

ReferenceLogProbs::ReferenceLogProbs(int64_t pairs)
    : values_(static_cast<size_t>(2 * pairs), std::numeric_limits<double>::quiet_NaN()) {}

bool ReferenceLogProbs::knows(const std::vector<int64_t>& pairs) const {
  return std::none_of(pairs.begin(), pairs.end(), [&](int64_t p) {
    return std::isnan(values_.at(static_cast<size_t>(2 * p))) || std::isnan(values_.at(static_cast<size_t>(2 * p + 1)));
  });
}

void ReferenceLogProbs::note(const std::vector<int64_t>& pairs, const std::vector<double>& values) {
  require(values.size() == 2 * pairs.size(), "reference: {} values of {} pairs", values.size(), pairs.size());
  for (size_t i = 0; i < values.size(); ++i) values_.at(static_cast<size_t>(2 * pairs[i / 2]) + i % 2) = values[i];
}

void ReferenceLogProbs::fill(MicroBatch& m) const {
  m.reference.clear();
  for (int64_t p : m.pairs)
    for (size_t k : {2 * static_cast<size_t>(p), 2 * static_cast<size_t>(p) + 1}) {
      require(!std::isnan(values_.at(k)), "reference: nothing is known of pair {}", p);
      m.reference.push_back(values_[k]);
    }
}

namespace {

constexpr const char* kReferenceFormat = "ravine-reference-1";

// Returns the checksum of the reference weights: of dpo.reference, or of the initial weights of the run.
std::string reference_weights(const OpenedRun& run, const Progress& p) {
  const Config& c = run.config();
  if (!c.dpo.reference.empty()) return weights_checksum(c.dpo.reference);
  if (!c.model.path.empty()) return p.began_with;
  return fmt::format("seed {}", c.train.seed);
}

// Returns a checksum over all inputs of the values.
std::string reference_key(const OpenedRun& run, const Progress& p) {
  const PairSet train = run.data.train->pairs(), valid = run.data.valid ? run.data.valid->pairs() : PairSet();
  const std::string text =
      fmt::format("{} {} {} {} {} {} {} {}", kReferenceFormat, reference_weights(run, p), run.model->config().dump(),
                  name(run.spec->types.compute), train.count, train.fingerprint, valid.count, valid.fingerprint);
  return checksum_text(checksum_of(std::as_bytes(std::span(text))));
}

// Returns the values of an earlier start; `empty` if the file cannot be read or has another key.
References read_references(const std::string& path, const std::string& key, References empty) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return empty;
  References out = empty;
  try {
    const SafetensorsReader in(path);
    const auto stored_key = in.metadata().find("key");
    if (stored_key == in.metadata().end() || stored_key->second != key) return empty;
    for (auto [to, tensor] : {std::pair(&out.train, "train"), std::pair(&out.valid, "valid")}) {
      const TensorInfo& t = in.tensor(tensor);
      std::vector<double>& values = to->values();
      if (t.dtype != DType::f64 || in.bytes(t).size() != values.size() * sizeof(double)) return empty;
      if (!values.empty()) in.read(t, 0, std::as_writable_bytes(std::span(values)));
    }
  } catch (const std::exception&) {
    return empty;
  }
  return out;
}

void write_references(const std::string& path, const std::string& key, const References& r) {
  std::vector<TensorBytes> tensors;
  for (auto [from, tensor] : {std::pair(&r.train, "train"), std::pair(&r.valid, "valid")})
    tensors.push_back(
        {tensor, DType::f64, {static_cast<int64_t>(from->values().size() / 2), 2}, std::as_bytes(std::span(from->values()))});
  save_safetensors(path, tensors, {.metadata = {{"format", kReferenceFormat}, {"key", key}}});
}

// The rows of a dataset for one forward pass.
struct ReferenceRows {
  const Dataset* data;
  ReferenceLogProbs* to;
  int64_t first, count;
};

// Appends the micro batches of samples [from, to) that hold an unknown pair.
void add_unknown(const Dataset& data, ReferenceLogProbs& known, int64_t from, int64_t to, int64_t rows,
                 std::vector<ReferenceRows>& out) {
  std::vector<bool> wanted(known.values().size() / 2);
  int64_t left = 0;
  for (size_t p = 0; p < wanted.size(); ++p) left += !(wanted[p] = known.knows({static_cast<int64_t>(p)}));
  for (int64_t first = from; first < to && left > 0; first += rows) {
    const int64_t count = std::min(rows, to - first);
    bool fresh = false;
    for (int64_t i = first; i < first + count; ++i)
      for (int64_t p : data.sample(i).pairs)
        if (!wanted[static_cast<size_t>(p)]) wanted[static_cast<size_t>(p)] = fresh = true, --left;
    if (fresh) out.push_back({&data, &known, first, count});
  }
}

std::vector<ReferenceRows> unknown_rows(const OpenedRun& run, const Progress& p, References& known) {
  const TrainOptions& t = run.config().train;
  std::vector<ReferenceRows> out;
  if (p.done < t.steps)
    add_unknown(*run.data.train, known.train, p.history.first_sample(p.done),
                p.history.first_sample(t.steps - 1) + p.history.global_batch(t.steps - 1), t.micro_batch, out);
  if (run.data.valid && t.valid_every > 0) {
    int64_t samples = run.data.valid->sample_count();
    if (t.valid_batches > 0) samples = std::min(samples, t.valid_batches * t.micro_batch);
    add_unknown(*run.data.valid, known.valid, 0, samples, t.micro_batch, out);
  }
  return out;
}

void load_reference(const OpenedRun& run, const Progress& p) {
  const Config& c = run.config();
  StepEngine& engine = *run.engine;
  const std::string folder = c.dpo.reference.empty() ? c.model.path : c.dpo.reference;
  if (c.dpo.reference.empty() && p.began_with != run.weights)
    throw UserError(fmt::format("{} holds other weights than when this run began", c.model.path),
                    run.path("reference.safetensors"),
                    "the reference is the model with which the run began, and this file lacks some of its log-probabilities",
                    "restore the original weights or the file, or set dpo.reference in a new run");
  if (folder.empty())
    initialise(engine.store(), static_cast<uint64_t>(c.train.seed), [](const Param& p) { return !p.adapter; });
  else
    load_weights(folder, engine.model(), engine.store());
  engine.store().refresh_copies(engine.ctx());
}

// Gives the values that one rank knows to every rank.
void share(const Group& all, std::vector<double>& values) {
  constexpr size_t kBlock = 1 << 16;
  for (size_t at = 0; at < values.size() && all.size() > 1; at += kBlock) {
    const size_t n = std::min(kBlock, values.size() - at);
    std::vector<double> of_ranks(n * static_cast<size_t>(all.size()));
    all.all_gather(values.data() + at, of_ranks.data(), static_cast<int64_t>(n * sizeof(double))).wait();
    for (size_t i = 0; i < of_ranks.size(); ++i)
      if (double& v = values[at + i % n]; std::isnan(v)) v = of_ranks[i];
  }
}

}  // namespace

References reference_log_probs(const OpenedRun& run, const Progress& p, const StopToken& stop) {
  References known;
  if (run.config().train.objective != TrainObjective::dpo) return known;
  const Ranks& ranks = run.ranks;
  known.train = ReferenceLogProbs(run.data.train->pairs().count);
  if (run.data.valid) known.valid = ReferenceLogProbs(run.data.valid->pairs().count);
  const std::string path = run.path("reference.safetensors"), key = reference_key(run, p);
  if (ranks.first()) known = read_references(path, key, std::move(known));
  for (std::vector<double>* values : {&known.train.values(), &known.valid.values()}) share(ranks.all(), *values);
  const std::vector<ReferenceRows> todo = unknown_rows(run, p, known);
  if (todo.empty()) return known;
  const double began = seconds_now();
  load_reference(run, p);
  run.log.line("reference {} of {}: log-probabilities of the answers, once",
               counted(static_cast<int64_t>(todo.size()), "micro batch"),
               !run.config().dpo.reference.empty() ? run.config().dpo.reference
               : run.lora                          ? "the base without adapters"
                                                   : "the model as it begins");
  // Data ranks take alternate micro batches, in equal numbers: a forward pass may gather blocks from all ranks.
  const Group& turns = ranks.along(Axis::data);
  const auto n = static_cast<int64_t>(todo.size());
  double last = began;
  for (int64_t round = 0; round < ceil_div(n, turns.size()); ++round) {
    if (any(ranks.all(), stop.requested())) break;
    const int64_t mine = round * turns.size() + turns.rank();
    const ReferenceRows& rows = todo[static_cast<size_t>(std::min(mine, n - 1))];
    const MicroBatch m = make_micro_batch(*rows.data, rows.first, rows.count);
    const std::vector<double> found = run.engine->answer_log_probs(m);
    if (mine < n && !found.empty()) rows.to->note(m.pairs, found);
    for (double v : found)
      if (!std::isfinite(v))
        fail("the reference model gives {} as the log-probability of an answer of {}", v, rows.data->origin(rows.first));
    if (seconds_now() - last < 5) continue;
    last = seconds_now();
    run.log.line("reference {} of {}", std::min(n, (round + 1) * turns.size()), counted(n, "micro batch"));
  }
  for (std::vector<double>* values : {&known.train.values(), &known.valid.values()}) share(ranks.all(), *values);
  if (ranks.first()) write_references(path, key, known);
  run.engine->rest();
  run.log.line("reference done in {:.1f} s", seconds_now() - began);
  return known;
}

}  // namespace ravine
