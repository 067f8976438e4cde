#include "runs/run_state.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "base/parallel.h"
#include "files/convert.h"
#include "io/adapter_weights.h"
#include "io/huggingface.h"
#include "parallel/initialise.h"

namespace ravine {
namespace {

constexpr const char* kRanksWithBuffers = "own_ranks";

void add_per_rank_states(TrainState& s, const FlatStore& store, const Optimizer& optimizer, size_t b) {
  const Bucket& bucket = store.buckets()[b];
  const std::string rank = fmt::format("rank_{:05}/", optimizer.group_rank());
  auto add = [&](const std::string& kind, const Param& param, const TensorView& view, const Shape& global,
                 const std::vector<int64_t>& begin) {
    s.tensors.push_back({.name = rank + kind + "/" + param.name,
                         .view = view,
                         .global = global,
                         .begin = begin,
                         .unit = bucket.unit->index,
                         .own = true});
  };
  for (const Optimizer::StatePiece& p : optimizer.per_rank_states(b)) add(p.state, *p.param, p.view, p.global, p.begin);
  if (!optimizer.diverged() || !bucket.trainable) return;
  const TensorView values = store.resident_values(b);
  for (const Piece& piece : pieces_of(bucket, store.resident(b)))
    add("weights", *piece.param,
        view_of(values.as<char>() + (piece.from - store.resident(b).begin) * size_of(values.dtype), values.dtype, piece.shape),
        piece.param->shape, piece.begin);
}

}  // namespace

TrainState state_of(const FlatStore& store, const Optimizer& optimizer, StateFor use) {
  TrainState s;
  const bool writing = use != StateFor::reading;
  for (size_t b = 0; b < store.buckets().size(); ++b) {
    const Bucket& bucket = store.buckets()[b];
    const TensorView values = store.resident_values(b);
    for (const Piece& piece : pieces_of(bucket, writing ? bucket.primary : store.resident(b))) {
      if (!changes(*piece.param) && use == StateFor::writing_trained) continue;
      if (writing && std::any_of(bucket.spans.begin(), bucket.spans.end(),
                                 [&](const Bucket::Span& x) { return x.param == piece.param && x.replica; }))
        continue;
      const TensorView v = view_of(values.as<char>() + (piece.from - store.resident(b).begin) * size_of(values.dtype),
                                   values.dtype, piece.shape);
      s.tensors.push_back({.name = "weights/" + piece.param->name,
                           .view = v,
                           .global = piece.param->shape,
                           .begin = piece.begin,
                           .unit = bucket.unit->index});
    }
    for (const Optimizer::StatePiece& p : optimizer.states(b, writing ? Optimizer::Of::primary : Optimizer::Of::kept))
      s.tensors.push_back({.name = p.state + "/" + p.param->name,
                           .view = p.view,
                           .global = p.global,
                           .begin = p.begin,
                           .unit = bucket.unit->index});
    if (!writing || b < store.table().borrowed) add_per_rank_states(s, store, optimizer, b);
  }
  s.scalars["optimizer_steps"] = optimizer.steps();
  if (optimizer.ranks_with_buffers() > 1) s.scalars[kRanksWithBuffers] = optimizer.ranks_with_buffers();
  return s;
}

int64_t checkpoint_scalar(const CheckpointReader& reader, const std::string& key) {
  const Json& s = reader.scalars();
  if (!s.contains(key) || !s[key].is_number_integer())
    throw UserError("checkpoint lacks '" + key + "'", fmt::format("checkpoint of step {}", reader.step()),
                    "it must be a training checkpoint", "choose another one");
  const auto value = s[key].get<int64_t>();
  if (value < 0)
    throw UserError(fmt::format("checkpoint has {} as '{}'", value, key), fmt::format("checkpoint of step {}", reader.step()),
                    "it must be 0 or more", "choose another one");
  return value;
}

int64_t ranks_with_buffers(const CheckpointReader& reader) {
  return reader.scalars().contains(kRanksWithBuffers) ? checkpoint_scalar(reader, kRanksWithBuffers) : 1;
}

std::vector<std::string> left_out_of(const CheckpointReader& reader, const Model& model) {
  std::vector<std::string> out;
  for (const Param& p : model.params().params())
    if (!p.tied && !changes(p) && !reader.has("weights/" + p.name)) out.push_back(p.name);
  return out;
}

namespace {

// Reads a frozen parameter, rounded to the type of the view: older checkpoints hold f32 masters. Host work, once.
void read_rounded(const CheckpointReader& reader, const StateTensor& t) {
  const DType stored = reader.dtype(t.name);
  Storage memory(DeviceKind::cpu, t.view.count() * size_of(stored));
  reader.read(t.name, view_of(memory.data(), stored, t.view.shape), t.global, t.begin);
  convert(stored, memory.data(), t.view.dtype, t.view.data, t.view.count());
}

}  // namespace

bool restore(FlatStore& store, Optimizer& optimizer, Ctx& c, const Model& model, const CheckpointReader& reader,
             const ModelOptions& from) {
  std::set<std::string> frozen, elsewhere;
  for (const Param& p : model.params().params())
    if (!changes(p)) frozen.insert("weights/" + p.name);
  for (const std::string& name : left_out_of(reader, model)) elsewhere.insert(name);
  const auto wanted = [&](const Param& p) { return elsewhere.contains(p.name); };
  if (!elsewhere.empty() && !from.weights.empty())
    load_weights_of(from.weights, model, store, wanted);
  else if (!elsewhere.empty())
    load_weights(from.path, model, store, wanted);
  optimizer.set_steps(checkpoint_scalar(reader, "optimizer_steps"));
  const bool as_many = ranks_with_buffers(reader) == optimizer.ranks_with_buffers();
  bool whole = as_many;
  for (const StateTensor& t : state_of(store, optimizer, StateFor::reading).tensors) {
    if (t.own &&
        // errors of a stage cover all its layers
        !(as_many && reader.has(t.name) && reader.shape(t.name) == t.global)) {
      whole = false;
      continue;
    }
    const bool still = frozen.contains(t.name);
    if (still && !reader.has(t.name)) continue;
    if (still && reader.dtype(t.name) != t.view.dtype && is_float(reader.dtype(t.name)))
      read_rounded(reader, t);
    else
      reader.read(t.name, t.view, t.global, t.begin);
  }
  store.refresh_copies(c);
  return whole;
}

namespace {

// True if one of `count` numbers has all bits of its exponent set: only NaN and infinity do.
template <class Bits>
bool has_not_finite(const void* data, int64_t count, Bits exponent) {
  constexpr int64_t kPart = int64_t{1} << 20;
  const auto* values = static_cast<const Bits*>(data);
  std::atomic<bool> found = false;
  parallel_for((count + kPart - 1) / kPart, [&](int64_t part) {
    bool any = false;
    for (int64_t i = part * kPart, end = std::min(count, i + kPart); i < end; ++i) any |= (values[i] & exponent) == exponent;
    if (any) found = true;
  });
  return found;
}

bool has_not_finite(const TensorView& v) {
  switch (v.dtype) {
    case DType::f32:
      return has_not_finite<uint32_t>(v.data, v.count(), 0x7f800000);
    case DType::f64:
      return has_not_finite<uint64_t>(v.data, v.count(), 0x7ff0000000000000);
    case DType::bf16:
      return has_not_finite<uint16_t>(v.data, v.count(), 0x7f80);
    case DType::f16:
      return has_not_finite<uint16_t>(v.data, v.count(), 0x7c00);
    default:
      return false;
  }
}

}  // namespace

void refuse_not_finite(StepEngine& engine, const std::string& where, const std::string& fix) {
  std::string mine;
  for (const StateTensor& t : state_of(engine, StateFor::reading).tensors)
    if (mine.empty() && has_not_finite(t.view)) mine = t.name;
  for (const std::string& name : gather_texts(engine.ranks().all(), mine))
    if (!name.empty())
      throw UserError("a number that is NaN or infinite", tensor_at(where, name), "no step makes it finite again", fix);
}

void begin_weights(StepEngine& engine, const Config& c) {
  FlatStore& store = engine.store();
  if (!c.model.weights.empty()) {
    load_weights_of(c.model.weights, engine.model(), store);
  } else if (c.model.path.empty()) {
    initialise(store, static_cast<uint64_t>(c.train.seed));
  } else {
    load_weights(c.model.path, engine.model(), store);
  }
  if (!c.lora.path.empty())
    load_adapter(c.lora.path, engine.model(), store);
  else if (c.lora.enabled())
    initialise(store, static_cast<uint64_t>(c.train.seed), [](const Param& p) { return p.adapter; });
  store.refresh_copies(engine.ctx());
  std::string read;
  for (const std::string* path : {&c.model.weights, &c.model.path, &c.lora.path})
    if (!path->empty() && !(path == &c.model.path && !c.model.weights.empty())) read += (read.empty() ? "" : ", ") + *path;
  if (!read.empty()) refuse_not_finite(engine, read, "use weights that are whole");
}

}  // namespace ravine
