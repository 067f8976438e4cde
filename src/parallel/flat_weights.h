// Values in flat buckets. The ZeRO stage decides which of them are resident (Rajbhandari et al. 2020); the others are
// gathered around each block.
//
//   stage   masters         copies of 16 bits
//   0       all             all
//   1, 2    all or shard*   all
//   3       shard **        shard **
//   * a shard if kernels read copies only; f32 runs compute with the masters.
//   ** as under stage 2 in buckets of small parameters (Bucket::stays).
//
// Packed values (blocks of 4 bits) are whole on every rank, or the tensor part of the rank, under all stages.
#pragma once
#include <memory>
#include <vector>

#include "engine/ctx.h"
#include "parallel/flat_table.h"

namespace ravine {

// The values of parameters in flat buckets, resident or gathered by the ZeRO stage.
class FlatWeights : public WeightSource {
 public:
  // Allocates buffers for the values that this rank keeps resident, filled with zero.
  FlatWeights(std::shared_ptr<const FlatTable> table, DeviceKind device);

  // Sets the Ctx whose arena holds gathered values (ZeRO 3). Must be called before the first acquire(), if values are
  // gathered.
  void attach(Ctx& c) { ctx_ = &c; }

  void prefetch(const Unit& unit) override;
  void acquire(const Unit& unit) override;
  void release(const Unit& unit) override;
  void progress() override;
  TensorView value(const Param& p) const override { return view(p, false); }
  TensorView master(const Param& p) const override { return view(p, true); }
  Shape shape(const Param& p) const override { return table_->at(p).shape; }
  Nf4View blocks(const Param& p) const override;
  std::vector<ParamBox> boxes() const override;
  std::vector<const Param*> params_in(const TensorView& view) const override;

  const FlatTable& table() const { return *table_; }
  // resident returns the range of elements of a bucket that this rank keeps in memory. resident_values returns a view
  // of them: of the master, or of the copy if there is no master. Both are empty for packed buckets. Weights or a
  // checkpoint are written to the view.
  Range resident(size_t bucket) const;
  TensorView resident_values(size_t bucket) const;
  // True if this rank keeps every parameter whole in memory: then master(p) needs no other rank.
  bool all_resident() const;
  // Rounds the masters to the 16-bit copies again, after masters were written. All ranks call it together.
  void refresh_copies(Ctx& c);
  // Starts to send the elements of a bucket that this rank has changed to the other ranks that keep them resident. The
  // values have arrived when the unit is acquired, at the latest after settle_values.
  void share(size_t bucket);
  void settle_values();
  int64_t weight_bytes() const;  // bytes in memory; for values on disk: the part that is in memory at once

 protected:
  TensorView master_range(size_t bucket, Range range) const;  // absent if there is no master, or no copy
  TensorView copy_range(size_t bucket, Range range) const;
  // fetch_from_disk reads the part of a bucket that is on disk into memory; drop_to_disk writes changes back and
  // releases the pages.
  void fetch_from_disk(size_t bucket) const;
  void drop_to_disk(size_t bucket) const;

 private:
  struct Memory {
    Storage master, copy, packed;
    bool master_whole = true, copy_whole = true;
    DiskMemory* master_disk = nullptr;  // null: the master is in memory
    // The gathered values under ZeRO 3: set while they are acquired or in flight.
    Tensor gathered_master, gathered_copy;
    Pending coming_master, coming_copy;
    int leases = 0;
  };
  TensorView view(const Param& p, bool wants_master) const;
  void lay_out_blocks(size_t bucket, DeviceKind device);
  void gather(size_t bucket);
  bool comes_and_goes() const { return table_->zero >= 3 || table_->disk_values; }  // around the blocks that read them

  std::shared_ptr<const FlatTable> table_;
  Ctx* ctx_ = nullptr;
  std::vector<Memory> memory_;   // by bucket
  std::vector<Nf4View> blocks_;  // by Param::index; empty: no parameter is packed
};

}  // namespace ravine
