#include "parallel/resident.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/philox.h"

namespace ravine {
namespace {
constexpr int64_t kAlignElements = 16;

bool read_as_matrix(const ParamSet& set, const Param& p) {
  if (p.use == Use::matrix) return true;
  return std::any_of(set.params().begin(), set.params().end(), [&](const Param& q) { return q.tied == &p && q.use == Use::matrix; });
}
}  // namespace

ResidentStore::ResidentStore(ParamSet& params, const Types& types, DeviceKind device)
    : params_(params), types_(types), device_(device), places_(params.params().size()) {
  for (Unit& unit : params.units()) {
    for (bool trainable : {true, false}) {
      Bucket bucket;
      bucket.unit = &unit;
      bucket.trainable = trainable;
      bool copy = false;
      for (size_t i = 0; i < unit.params.size();) {
        size_t end = i;
        bool any = false;
        for (; end < unit.params.size() && unit.params[end]->join == unit.params[i]->join; ++end) any = any || unit.params[end]->trainable;
        if (any == trainable) {
          bucket.count = round_up(bucket.count, kAlignElements);
          for (size_t j = i; j < end; ++j) {
            Param& p = *unit.params[j];
            if (p.tied) continue;
            places_[p.index] = {buckets_.size(), bucket.count, false};
            bucket.spans.push_back({&p, bucket.count, p.shape});
            bucket.count += p.shape.count();
            copy = copy || read_as_matrix(params, p);
          }
        }
        i = end;
      }
      if (bucket.spans.empty()) continue;
      bucket.count = round_up(bucket.count, kAlignElements);
      bool narrow = copy && types.compute != types.master;
      masters_.emplace_back(device, bucket.count * size_of(types.master));
      copies_.emplace_back(device, narrow ? bucket.count * size_of(types.compute) : 0);
      buckets_.push_back(std::move(bucket));
    }
  }
  grads_.resize(buckets_.size());
}

namespace {
TensorView slice(const Storage& s, DType t, int64_t begin, const Shape& shape) {
  std::byte* data = s.data() ? s.data() + begin * size_of(t) : nullptr;
  return view_of(data, t, shape, s.device());
}
}  // namespace

TensorView ResidentStore::master(const Param& p) const {
  const Place& at = place(p);
  return slice(masters_[at.bucket], types_.master, at.begin, p.shape);
}

TensorView ResidentStore::value(const Param& p) const {
  const Place& at = place(p);
  if (p.use != Use::matrix || copies_[at.bucket].bytes() == 0) return master(p);
  return slice(copies_[at.bucket], types_.compute, at.begin, p.shape);
}

void ResidentStore::open_grads(Ctx& c, const Unit& unit) {
  for (size_t b = 0; b < buckets_.size(); ++b)
    if (buckets_[b].unit == &unit && buckets_[b].trainable && !grads_[b])
      grads_[b] = c.empty({buckets_[b].count}, types_.master, MemoryKind::gradients);
  for (const Param* p : unit.params)
    if (p->tied && p->tied->trainable && !tied_grads_.count(p))
      tied_grads_[p] = c.empty({p->shape[0], p->shape[1]}, types_.master, MemoryKind::gradients);
}

TensorView ResidentStore::add_to_grad(const Param& p, bool& accumulate) {
  Place& mine = places_[p.index];
  if (p.tied) {
    auto it = tied_grads_.find(&p);
    if (it == tied_grads_.end()) return {};
    accumulate = std::exchange(mine.written, true);
    return it->second.view();
  }
  if (!buckets_[mine.bucket].trainable) return {};
  require(static_cast<bool>(grads_[mine.bucket]), "store: gradients of '{}' are not open", p.name);
  accumulate = std::exchange(mine.written, true);
  return grad(p);
}

TensorView ResidentStore::grad(const Param& p) const {
  const Place& at = place(p);
  if (!grads_[at.bucket]) return {};
  TensorView v = grads_[at.bucket].view();
  return view_of(v.data ? static_cast<char*>(v.data) + at.begin * size_of(v.dtype) : nullptr, v.dtype, p.shape, v.device);
}

bool ResidentStore::has_grad(const Param& p) const { return places_[p.index].written; }

void ResidentStore::finish_grads(Ctx& c) {
  for (auto& [p, tensor] : tied_grads_) {
    if (!places_[p->index].written) continue;
    TensorView own = grad(*p->tied);
    if (places_[p->tied->index].written)
      c.call(Add{own, tensor.view(), own});
    else
      c.call(Cast{tensor.view(), own});
    places_[p->tied->index].written = true;
  }
  tied_grads_.clear();
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (!grads_[b]) continue;
    TensorView flat = grads_[b].view();
    auto clear = [&](int64_t begin, int64_t end) {
      if (begin >= end) return;
      TensorView part = view_of(flat.data ? static_cast<char*>(flat.data) + begin * size_of(flat.dtype) : nullptr, flat.dtype, {end - begin}, flat.device);
      c.call(Fill{part, 0});
    };
    int64_t end = 0;  // of what is valid so far: padding, unwritten and frozen spans are cleared
    for (const Bucket::Span& s : buckets_[b].spans) {
      if (!places_[s.param->index].written || !s.param->trainable) continue;
      clear(end, s.begin);
      end = s.begin + s.param->shape.count();
    }
    clear(end, buckets_[b].count);
  }
}

void ResidentStore::end_step() {
  tied_grads_.clear();
  for (Tensor& g : grads_) g = Tensor();
  for (Place& p : places_) p.written = false;
}

TensorView ResidentStore::flat_master(size_t b) const { return slice(masters_[b], types_.master, 0, {buckets_[b].count}); }

TensorView ResidentStore::flat_copy(size_t b) const {
  return copies_[b].bytes() ? slice(copies_[b], types_.compute, 0, {buckets_[b].count}) : TensorView{};
}

TensorView ResidentStore::flat_grad(size_t b) const { return grads_[b] ? grads_[b].view() : TensorView{}; }

void ResidentStore::refresh_copies(Ctx& c) {
  for (size_t b = 0; b < buckets_.size(); ++b)
    if (copies_[b].bytes()) c.call(Cast{flat_master(b), flat_copy(b)});
}

int64_t ResidentStore::weight_bytes() const {
  int64_t n = 0;
  for (auto& s : masters_) n += s.bytes();
  for (auto& s : copies_) n += s.bytes();
  return n;
}

void initialise(const ParamSet& params, ParamStore& store, uint64_t seed) {
  for (const Param& p : params.params()) {
    if (p.tied) continue;
    TensorView v = store.master(p);
    if (!v.data) continue;
    uint64_t key = philox_key(seed, p.name);
    constexpr int64_t kRun = 4096;
    visit_float(v.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* out = v.as<T>();
      int64_t n = v.count();
      parallel_for(ceil_div(n, kRun), [&](int64_t run) {
        for (int64_t i = run * kRun; i < std::min(n, (run + 1) * kRun); i += 4) {
          std::array<double, 4> z{};
          if (p.init.kind == Init::normal) {
            auto w = philox(key, {static_cast<uint32_t>(i / 4), static_cast<uint32_t>((i / 4) >> 32), 0, 0});
            auto a = normal_pair(w[0], w[1]), b = normal_pair(w[2], w[3]);
            z = {a[0], a[1], b[0], b[1]};
          }
          for (int64_t j = 0; j < 4 && i + j < n; ++j) {
            double x = p.init.kind == Init::normal ? p.init.std * z[static_cast<size_t>(j)] : p.init.kind == Init::ones ? 1.0 : 0.0;
            out[i + j] = static_cast<T>(static_cast<float>(x));
          }
        }
      });
    });
  }
}

}  // namespace ravine
