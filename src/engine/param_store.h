// Seam S2: where parameters are stored and gathered (WeightSource), and where their gradients are stored for the
// optimizer (GradStore). Implementations are in parallel/. The terms are from the papers on ZeRO, FSDP and Megatron.
//
//   bucket       parameters of a unit that are treated alike, side by side in flat buffers.
//   group        the ranks along one mesh axis that share a bucket: they sum its gradients and divide its storage.
//   shard        one of the equal parts of a divided bucket, one for each rank of its group.
//   owned        the part of a bucket that this rank updates: its shard, or all of a bucket that is not divided.
//   resident     the values of a bucket that stay on this rank; the rest is gathered while a unit is leased.
//   local        the part of a parameter that a tensor rank holds, if it is cut over tensor ranks.
//   replica      the same local values on another tensor rank; one of the replicas is the primary replica.
//   primary      the part of a bucket that only this rank saves in checkpoints and adds to norms.
//   master       values in the type that the optimizer updates; the copy has 16 bits and is for products.
//   accumulator  sum of gradients of a bucket, or of a tied parameter; a leaf is the micro batches that add in place.
#pragma once
#include <span>
#include <vector>

#include "engine/param.h"
#include "kernels/kernels.h"

namespace ravine {

class Ctx;

// A range of elements of a flat buffer: [begin, begin + count).
struct Range {
  int64_t begin = 0, count = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// The form in which the values of a bucket are stored.
enum class ValueStorage : uint8_t {
  master,           // the master alone, which kernels read
  master_and_copy,  // products read a copy of 16 bits
  copy,             // the copy of 16 bits alone: it is not updated, and only products read it
  packed,           // blocks of 4 bits with their scales (kernels/nf4.h): one buffer per parameter, whole on every rank
};

// A bucket: parameters of a unit that are treated alike, in flat buffers. Gather, scatter, optimizer and checkpoint
// handle a bucket in one call.
struct Bucket {
  Unit* unit = nullptr;
  bool trainable = true;
  bool cut = true;  // over the tensor axis; false: every tensor rank holds the same values
  Axis group = Axis::data;
  ValueStorage storage = ValueStorage::master;
  bool reads_master = true;  // read as a master by lookup tables, vectors, and products without a copy
  DType master_type = DType::f32, copy_type = DType::f32;
  DType grad_type = DType::f32;  // type of gradients and of their sums
  int64_t count = 0;             // elements, padded
  int64_t shard = 0;             // elements per rank of the group; equal to count if the bucket is not divided
  Range owned, primary;
  bool stays = false;  // of a divided bucket: its values stay whole on each rank, also if other buckets are gathered
  struct Span {
    Param* param;
    int64_t begin;                // element offset in the flat buffers
    Shape shape;                  // local
    std::vector<int64_t> origin;  // index in the parameter where the local part begins, per dim
    // true: an earlier tensor rank holds the same values and is the primary replica (key/value heads).
    bool replica = false;
  };
  std::vector<Span> spans;  // by offset

  bool divided() const { return owned.count < count; }
  bool has_master() const { return storage == ValueStorage::master || storage == ValueStorage::master_and_copy; }
  bool has_copy() const { return storage == ValueStorage::copy || storage == ValueStorage::master_and_copy; }
  bool holds(const Param& p) const;
};
// Returns the parts of Bucket::primary whose elements this rank adds to norms: all but replicas. Parts are cut at
// multiples of kNormRun, so that partial sums do not depend on where the shard of a rank begins.
std::vector<Range> counted_ranges(const Bucket& bucket);

// The number of elements in a partial sum of a norm. Shards begin at multiples of it.
inline constexpr int64_t kNormRun = 1024;

// A box (rectangular part) of a parameter that a rank holds, and a view of its values. The view is contiguous and has
// the shape of the box. A box may reach beyond the end of the parameter's first dim (padding).
struct ParamBox {
  const Param* param = nullptr;
  std::vector<int64_t> begin;  // per dim
  TensorView view;
};

// Base class of stores that give access to the values of parameters: enough for generation, export and frozen weights.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Starts to gather the values of a unit from other ranks; acquire() waits for them. Each block acquires its unit in
  // the forward and in the backward pass.
  virtual void prefetch(const Unit&) {}
  virtual void acquire(const Unit&) = 0;
  virtual void release(const Unit&) = 0;

  // Returns the value of a parameter as products read it (the 16-bit copy, if there is one). Its unit must be acquired.
  virtual TensorView value(const Param& p) const = 0;
  // Returns the shape of the part of a parameter that this rank holds.
  virtual Shape shape(const Param& p) const { return p.shape; }
  // Returns the value of a parameter as lookup tables and vectors read it: the master, or the copy if there is no
  // master.
  virtual TensorView master(const Param& p) const = 0;
  // Returns the part of a parameter in blocks of 4 bits that this rank holds, for nf4_encode to fill. Such a parameter
  // has no value() and no master(). Absent bytes: the parameter is not stored in blocks.
  virtual Nf4View blocks(const Param&) const { return {}; }
  // Returns views of the values that this rank holds, except those in blocks of 4 bits. The views are to be filled from
  // files; their type is the type of the master, if there is one.
  virtual std::vector<ParamBox> boxes() const = 0;

  // Returns the parameters whose values, masters or gradients are in the memory of this view, in order; empty for other
  // memory.
  virtual std::vector<const Param*> params_in(const TensorView&) const { return {}; }
  // Lets pending messages between ranks make progress. Called between ops.
  virtual void progress() {}
};

// Base class of stores that hold the gradients of a step, and the values that the optimizer updates with them.
class GradStore {
 public:
  virtual ~GradStore() = default;
  // Allocates the memory for gradients of a unit's parameters in the arena; they stay until end_step(). Called before
  // the backward pass of the unit.
  virtual void open_grads(Ctx& c, const Unit&) = 0;
  virtual void close_grads(Ctx& c, const Unit&) = 0;
  // Returns the memory into which the gradient of a parameter is written. The first call in a step sets accumulate =
  // false (overwrite), later calls set true (add). Absent if the parameter is frozen.
  virtual TensorView add_to_grad(const Param& p, bool& accumulate) = 0;
  // Returns the memory for the part of a parameter's gradient that comes from the tokens of rank `source` of the group.
  // `first` is the result of add_to_grad: the gradient of the tokens of rank 0. Used for parameters that see tokens of
  // several ranks (experts on ranks). One gradient per source rank keeps the order of the sum equal to the order of
  // data ranks.
  virtual TensorView grad_of_source(const Param&, const TensorView& first, int source) {
    require(source == 0, "gradients of tokens of other ranks, and no experts are divided");
    return first;
  }
  virtual bool has_grad(const Param& p) const = 0;  // a gradient was written in this step

  // Completes the gradients of a step after the last micro batch: zeroes gradients that were not written, and adds the
  // gradients of tied parameters.
  virtual void finish_grads(Ctx& c) = 0;
  // Ends a step: frees the memory of the gradients.
  virtual void end_step() = 0;

  // The buckets in the order of the units. owned_master, owned_copy and owned_grad return flat views, for the
  // optimizer, of the elements that this rank updates (Bucket::owned).
  virtual const std::vector<Bucket>& buckets() const = 0;
  virtual TensorView owned_master(size_t bucket) const = 0;
  virtual TensorView owned_copy(size_t bucket) const = 0;  // absent if there is none
  virtual TensorView owned_grad(size_t bucket) const = 0;  // absent outside a step, and for frozen buckets
  // Distributes the new values of a bucket to the other ranks, after the optimizer has updated its owned part.
  virtual void publish(Ctx& c, size_t bucket) = 0;
};

// A guard that acquires a unit in its constructor and releases it at the end of the scope.
class Lease {
 public:
  Lease(WeightSource& store, const Unit& unit) : store_(store), unit_(unit) { store_.acquire(unit_); }
  ~Lease() { store_.release(unit_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  WeightSource& store_;
  const Unit& unit_;
};

}  // namespace ravine
