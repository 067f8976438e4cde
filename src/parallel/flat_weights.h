// Values in flat buckets, and what of them is resident as the ZeRO stage says (Rajbhandari et al. 2020); the rest is gathered
// around each block.
//
//   stage   masters         copies of 16 bits
//   0       all             all
//   1, 2    all or shard*   all
//   3       shard **        shard **
//   * a shard where kernels read copies only; f32 runs compute with the masters.
//   ** as under stage 2 in buckets of small parameters (Bucket::stays).
//
// What is packed in blocks of 4 bits every rank has whole, or its tensor part of it, under any stage.
#pragma once
#include <memory>
#include <vector>

#include "engine/ctx.h"
#include "parallel/flat_table.h"

namespace ravine {

class FlatWeights : public WeightSource {
 public:
  // Buffers for what is resident, zero.
  FlatWeights(std::shared_ptr<const FlatTable> table, DeviceKind device);

  // Whose arena holds gathered values (stage 3), and who computes. To be set before units are acquired if values are gathered.
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
  // What is resident of a bucket, and the view of it: of the master, where there is none of the copy; of packed ones nothing. To
  // fill, from weights or a checkpoint.
  Range resident(size_t bucket) const;
  TensorView resident_values(size_t bucket) const;
  // Whether every parameter is resident, whole, in one place: then master(p) may be used without asking other ranks.
  bool all_resident() const;
  // After values were filled: makes the copies of masters again. All ranks call it.
  void refresh_copies(Ctx& c);
  // Of a bucket of which each rank has changed what it owns: every rank gets what is resident there. It has come when the unit
  // is acquired, at the latest at settle_values.
  void share(size_t bucket);
  void settle_values();
  int64_t weight_bytes() const;  // in memory; of what lies on a disk what is there at once

 protected:
  TensorView master_range(size_t bucket, Range range) const;  // absent where there is no master, or no copy
  TensorView copy_range(size_t bucket, Range range) const;
  // Of what of a bucket lies on a disk.
  void fetch_from_disk(size_t bucket) const;
  void drop_to_disk(size_t bucket) const;

 private:
  struct Memory {
    Storage master, copy, packed;
    bool master_whole = true, copy_whole = true;
    DiskMemory* master_disk = nullptr;  // null: it is in memory
    // While acquired or on its way, under stage 3.
    Tensor gathered_master, gathered_copy;
    Pending coming_master, coming_copy;
    int leases = 0;
  };
  TensorView view(const Param& p, bool wants_master) const;
  void lay_out_blocks(size_t bucket, DeviceKind device);
  void gather(size_t bucket);
  bool comes_and_goes() const { return table_->zero >= 3 || table_->disk_values; }  // around the blocks that read it

  std::shared_ptr<const FlatTable> table_;
  Ctx* ctx_ = nullptr;
  std::vector<Memory> memory_;   // by bucket
  std::vector<Nf4View> blocks_;  // by Param::index; empty: nothing is packed
};

}  // namespace ravine
