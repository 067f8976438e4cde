#include "parallel/flat_weights.h"

#include <algorithm>

#include "parallel/slice.h"

namespace ravine {

FlatWeights::FlatWeights(std::shared_ptr<const FlatTable> table, DeviceKind device)
    : table_(std::move(table)), memory_(table_->buckets.size()) {
  for (size_t b = 0; b < memory_.size(); ++b) {
    const Bucket& bucket = table_->buckets[b];
    Memory& m = memory_[b];
    const bool divided = bucket.divided();
    m.master_whole = !divided || (table_->values_stay(b) && bucket.reads_master);
    m.copy_whole = !divided || table_->values_stay(b);
    auto bytes = [&](bool there, bool whole, DType type) {
      return there ? (whole ? bucket.count : bucket.owned.count) * size_of(type) : 0;
    };
    m.master = Storage(device, bytes(bucket.has_master(), m.master_whole, bucket.master_type));
    m.copy = Storage(device, bytes(bucket.has_copy(), m.copy_whole, bucket.copy_type));
    if (bucket.storage == ValueStorage::packed) lay_out_blocks(b, device);
    const bool only_updated = bucket.has_copy() && !bucket.reads_master;
    m.master_disk = table_->disk_values ? table_->disk_values : only_updated ? table_->disk_masters : nullptr;
    if (m.master_disk) m.master_disk->take(m.master);
    if (table_->disk_values) table_->disk_values->take(m.copy), table_->disk_values->take(m.packed);
  }
}

void FlatWeights::fetch_from_disk(size_t b) const {
  const Memory& m = memory_[b];
  if (m.master_disk) m.master_disk->fetch(m.master);
  if (const DiskMemory* disk = table_->disk_values) disk->fetch(m.copy), disk->fetch(m.packed);
}

void FlatWeights::drop_to_disk(size_t b) const {
  const Memory& m = memory_[b];
  if (m.master_disk) m.master_disk->drop(m.master);
  if (const DiskMemory* disk = table_->disk_values) disk->drop(m.copy), disk->drop(m.packed);
}

void FlatWeights::lay_out_blocks(size_t b, DeviceKind device) {
  const Bucket& bucket = table_->buckets[b];
  blocks_.resize(table_->params.params().size());
  std::vector<int64_t> begins;
  int64_t bytes = 0;
  for (const Bucket::Span& s : bucket.spans) {
    const Nf4View v = nf4_box(s.param->shape, s.shape, s.origin);
    if (!nf4_fits(v))
      throw UserError(fmt::format("'{}' over {} tensor ranks", s.param->name, table_->sharding.mesh.tensor), "lora.base=nf4",
                      fmt::format("each rank would hold {} x {} of {}, which cuts blocks of {}", v.rows, v.cols,
                                  s.param->shape.text(), kNf4Block),
                      "use fewer tensor ranks, or lora.base=bf16");
    begins.push_back(bytes);
    bytes += v.byte_count();
    blocks_[s.param->index] = v;
  }
  Storage& memory = memory_[b].packed = Storage(device, bytes);
  for (size_t i = 0; i < begins.size(); ++i) {
    TensorView& to = blocks_[bucket.spans[i].param->index].bytes;
    to = slice(memory, DType::u8, begins[i], to.shape);
  }
}

Nf4View FlatWeights::blocks(const Param& p) const { return blocks_.empty() ? Nf4View{} : blocks_[p.index]; }

TensorView FlatWeights::view(const Param& p, bool wants_master) const {
  const FlatTable::Location& at = table_->at(p);
  const Bucket& bucket = table_->buckets[at.bucket];
  const Memory& m = memory_[at.bucket];
  require(bucket.storage != ValueStorage::packed, "store: '{}' is kept in blocks of 4 bits, and read as a plain matrix",
          p.name);
  const bool copy = bucket.has_copy() && ((!wants_master && p.use == Use::matrix) || !bucket.has_master());
  if (copy ? m.copy_whole : m.master_whole)
    return slice(copy ? m.copy : m.master, copy ? bucket.copy_type : bucket.master_type, at.begin, at.shape);
  const Tensor& all = copy ? m.gathered_copy : m.gathered_master;
  require(m.leases > 0 && all, "store: '{}' is read while its unit is not acquired", p.name);
  return slice(all, at.begin, at.shape);
}

void FlatWeights::gather(size_t b) {
  const Bucket& bucket = table_->buckets[b];
  Memory& m = memory_[b];
  if (!bucket.divided() || table_->values_stay(b) || m.gathered_master || m.gathered_copy) return;
  require(ctx_ != nullptr, "store: no Ctx is attached to gather into");
  auto bring = [&](const Storage& from, DType t, Tensor& all, Pending& coming) {
    all = ctx_->empty({bucket.count}, t, MemoryKind::weights);
    coming = table_->group(b).all_gather(from.data(), all.view().data, from.bytes());
  };
  if (bucket.has_copy()) bring(m.copy, bucket.copy_type, m.gathered_copy, m.coming_copy);
  if (bucket.reads_master) bring(m.master, bucket.master_type, m.gathered_master, m.coming_master);
}

void FlatWeights::prefetch(const Unit& unit) {
  if (!comes_and_goes()) return;
  for (size_t b : table_->read_by[unit.index]) {
    if (memory_[b].leases == 0) fetch_from_disk(b);
    gather(b);
  }
}

void FlatWeights::acquire(const Unit& unit) {
  if (!comes_and_goes()) return;
  for (size_t b : table_->read_by[unit.index]) {
    gather(b);
    memory_[b].coming_copy.wait();
    memory_[b].coming_master.wait();
    ++memory_[b].leases;
  }
}

void FlatWeights::release(const Unit& unit) {
  if (!comes_and_goes()) return;
  for (size_t b : table_->read_by[unit.index])
    if (--memory_[b].leases == 0) {
      memory_[b].gathered_copy = memory_[b].gathered_master = Tensor();
      drop_to_disk(b);
    }
}

void FlatWeights::progress() {
  if (table_->zero < 3) return;
  for (Axis axis : table_->groups) table_->ranks->along(axis).progress();
}

// The shards of gathered buckets stay on their ranks.
void FlatWeights::share(size_t b) {
  const Bucket& bucket = table_->buckets[b];
  Memory& m = memory_[b];
  if (!bucket.divided() || !table_->values_stay(b)) return;
  const Group& group = table_->group(b);
  auto bring = [&](const Storage& s, Pending& coming) {
    int64_t bytes = s.bytes() / group.size();
    coming = group.all_gather(s.data() ? s.data() + group.rank() * bytes : nullptr, s.data(), bytes);
  };
  if (bucket.has_copy()) bring(m.copy, m.coming_copy);
  if (bucket.has_master() && m.master_whole) bring(m.master, m.coming_master);
}

void FlatWeights::settle_values() {
  for (Memory& m : memory_) {
    m.coming_copy.wait();
    m.coming_master.wait();
  }
}

TensorView FlatWeights::master_range(size_t b, Range r) const {
  const Bucket& bucket = table_->buckets[b];
  return bucket.has_master() ? slice(memory_[b].master, bucket.master_type,
                                     r.begin - (memory_[b].master_whole ? 0 : bucket.owned.begin), {r.count})
                             : TensorView{};
}

TensorView FlatWeights::copy_range(size_t b, Range r) const {
  const Bucket& bucket = table_->buckets[b];
  return bucket.has_copy()
             ? slice(memory_[b].copy, bucket.copy_type, r.begin - (memory_[b].copy_whole ? 0 : bucket.owned.begin), {r.count})
             : TensorView{};
}

Range FlatWeights::resident(size_t b) const {
  const Bucket& bucket = table_->buckets[b];
  if (bucket.storage == ValueStorage::packed) return {};
  return (bucket.has_master() ? memory_[b].master_whole : memory_[b].copy_whole) ? Range{0, bucket.count} : bucket.owned;
}

TensorView FlatWeights::resident_values(size_t b) const {
  return table_->buckets[b].has_master() ? master_range(b, resident(b)) : copy_range(b, resident(b));
}

std::vector<ParamBox> FlatWeights::boxes() const {
  std::vector<ParamBox> out;
  for (size_t b = 0; b < table_->buckets.size(); ++b) {
    const TensorView values = resident_values(b);
    for (const Piece& p : pieces_of(table_->buckets[b], resident(b)))
      out.push_back({p.param, p.begin, slice(values.data, values.dtype, p.from - resident(b).begin, p.shape, values.device)});
  }
  return out;
}

void FlatWeights::refresh_copies(Ctx& c) {
  for (size_t b = 0; b < table_->buckets.size(); ++b) {
    const Bucket& bucket = table_->buckets[b];
    if (bucket.storage != ValueStorage::master_and_copy) continue;
    const bool whole = memory_[b].copy_whole && memory_[b].master_whole;
    const Range range = whole ? Range{0, bucket.count} : bucket.owned;
    c.call(Cast{master_range(b, range), copy_range(b, range)});
    if (whole) continue;
    share(b);
    settle_values();
  }
  for (size_t b = 0; b < table_->buckets.size(); ++b) drop_to_disk(b);
}

std::vector<const Param*> FlatWeights::params_in(const TensorView& v) const {
  std::vector<const Param*> out;
  for (size_t b = 0; b < memory_.size(); ++b) {
    const Bucket& bucket = table_->buckets[b];
    const Memory& m = memory_[b];
    const int64_t shard = bucket.owned.begin;
    find_params(bucket, m.master.data(), m.master.bytes(), bucket.master_type, m.master_whole ? 0 : shard, v, out);
    find_params(bucket, m.copy.data(), m.copy.bytes(), bucket.copy_type, m.copy_whole ? 0 : shard, v, out);
    if (m.packed.bytes() > 0 && v.data)
      for (const Bucket::Span& s : bucket.spans)
        if (v.data == blocks_[s.param->index].bytes.data) out.push_back(s.param);
    for (const Tensor* t : {&m.gathered_master, &m.gathered_copy})
      if (*t) find_params(bucket, t->view().data, t->view().bytes(), t->dtype(), 0, v, out);
  }
  return out;
}

bool FlatWeights::all_resident() const {
  for (size_t b = 0; b < memory_.size(); ++b)
    if (table_->buckets[b].storage != ValueStorage::packed && resident(b).count < table_->buckets[b].count) return false;
  const Mesh& mesh = table_->sharding.mesh;
  return mesh.tensor == 1 && mesh.pipeline == 1 && mesh.expert == 1;
}

int64_t FlatWeights::weight_bytes() const {
  int64_t n = 0;
  std::vector<int64_t> on_disk;
  for (const Memory& m : memory_) {
    const int64_t masters = m.master.bytes(), others = m.copy.bytes() + m.packed.bytes();
    n += (m.master_disk ? 0 : masters) + (table_->disk_values ? 0 : others);
    on_disk.push_back((m.master_disk ? masters : 0) + (table_->disk_values ? others : 0));
  }
  return n + DiskMemory::most_at_once(on_disk);
}

}  // namespace ravine
