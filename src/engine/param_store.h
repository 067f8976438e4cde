// Seam S2: where parameters live and when they are gathered (WeightSource), where their gradients go and what an optimizer sees
// of them (GradStore). Implementations are in parallel/. The words, as papers on ZeRO, FSDP and Megatron have them:
//
//   bucket       parameters of a unit that are treated alike, side by side in flat buffers
//   group        the ranks along one mesh axis that hold a bucket in common: they sum its gradients and divide what is kept of it
//   shard        one of the equal parts into which a bucket is divided, one for each rank of its group
//   owned        what of a bucket this rank updates: its shard, or everything where nothing is divided
//   resident     what of a bucket's values stays on this rank; the rest is gathered while a unit is leased
//   local        what a tensor rank has of a parameter that is cut over them
//   replica      the same local values on another tensor rank; one of the replicas is the primary one
//   primary      what of a bucket this rank alone answers for, in norms and checkpoints
//   master       values in the type that the optimizer updates; the copy is of 16 bits, for products
//   accumulator  where gradients of a bucket, or of a tied place of use, add up; a leaf is the micro batches that do so in place
#pragma once
#include <span>
#include <vector>

#include "engine/param.h"
#include "kernels/kernels.h"

namespace ravine {

class Ctx;

// Elements [begin, begin + count) of a flat buffer.
struct Range {
  int64_t begin = 0, count = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// How the values of a bucket are kept.
enum class ValueStorage : uint8_t {
  master,           // in the master's type alone, which kernels read
  master_and_copy,  // products read a copy of 16 bits
  copy,             // 16 bits alone: nothing updates it, and products alone read it
  packed,  // blocks of 4 bits with their scales (kernels/nf4.h): each parameter in bytes of its own, on every rank whole
};

// One bucket = parameters of a unit that are treated alike: flat buffers that gather, scatter, optimizer and checkpoint handle
// in one call each.
struct Bucket {
  Unit* unit = nullptr;
  bool trainable = true;
  bool cut = true;  // over the tensor axis; else every tensor rank holds the same
  Axis group = Axis::data;
  ValueStorage storage = ValueStorage::master;
  bool reads_master = true;  // lookup tables, vectors, and products where there is no copy
  DType master_type = DType::f32, copy_type = DType::f32;
  DType grad_type = DType::f32;  // of gradients and their sums
  int64_t count = 0;             // elements, padded
  int64_t shard = 0;             // elements of one rank of the group; count where the bucket is too small to be divided
  Range owned, primary;
  bool stays = false;  // where it is divided: its values are whole on each rank, whatever is gathered of others
  struct Span {
    Param* param;
    int64_t begin;                // element offset in the flat buffers
    Shape shape;                  // local
    std::vector<int64_t> origin;  // where that begins in the parameter, per dim
    bool replica = false;         // a tensor rank before this one holds the same and is the primary one (key/value heads)
  };
  std::vector<Span> spans;  // by offset

  bool divided() const { return owned.count < count; }
  bool has_master() const { return storage == ValueStorage::master || storage == ValueStorage::master_and_copy; }
  bool has_copy() const { return storage == ValueStorage::copy || storage == ValueStorage::master_and_copy; }
  bool holds(const Param& p) const;
};
// What of `primary` counts in norms: all but replicas, cut where partial sums begin anew wherever the shard of a rank begins.
std::vector<Range> counted_ranges(const Bucket& bucket);

inline constexpr int64_t kNormRun = 1024;  // norms take partial sums of so many elements; shards begin at multiples

// A box of a parameter that a rank holds, and where its values lie: contiguous, of the shape of the box, which may reach beyond
// the end of the parameter's first dim (padding).
struct ParamBox {
  const Param* param = nullptr;
  std::vector<int64_t> begin;  // per dim
  TensorView view;
};

// Values, for whoever reads them: all that generation, export and frozen weights need.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Starts bringing a unit here; acquire waits for it. Units are acquired around each block, forward and backward.
  virtual void prefetch(const Unit&) {}
  virtual void acquire(const Unit&) = 0;
  virtual void release(const Unit&) = 0;

  // The value as products read it (the copy, where there is one); its unit must be acquired.
  virtual TensorView value(const Param& p) const = 0;
  // Of the part of it that this rank holds.
  virtual Shape shape(const Param& p) const { return p.shape; }
  // The value as a lookup table or vector reads it: the master; where there is none, what there is.
  virtual TensorView master(const Param& p) const = 0;
  // Of a parameter that is kept in blocks of 4 bits, which has neither value nor master: what this rank holds of it, to be
  // filled by nf4_encode. Absent bytes: it is kept otherwise.
  virtual Nf4View blocks(const Param&) const { return {}; }
  // Everything else that is resident, in the type of the master where there is one: to be filled, from files.
  virtual std::vector<ParamBox> boxes() const = 0;

  // The parameters whose values, masters or gradients lie in these elements, in order; of memory of others: none.
  virtual std::vector<const Param*> params_in(const TensorView&) const { return {}; }
  // Called between ops: lets messages that are under way move on.
  virtual void progress() {}
};

// Gradients of a step, and what an optimizer sees of the values that they change.
class GradStore {
 public:
  virtual ~GradStore() = default;
  // Makes room for the gradients of a unit in the arena (kept until end_step). Called before its backward.
  virtual void open_grads(Ctx& c, const Unit&) = 0;
  virtual void close_grads(Ctx& c, const Unit&) = 0;
  // Where to put the gradient. First writer of a step: accumulate = false, overwrite; later ones add. Absent view if frozen.
  virtual TensorView add_to_grad(const Param& p, bool& accumulate) = 0;
  // Of a parameter that tokens of several ranks meet (experts on ranks) each of these has a gradient of its own, so that they
  // are summed in the order in which data ranks are. add_to_grad gave `first`, that of the tokens of rank 0 of the group; this
  // is that of those of rank `source`, to be written likewise.
  virtual TensorView grad_of_source(const Param&, const TensorView& first, int source) {
    require(source == 0, "gradients of tokens of other ranks, and no experts are divided");
    return first;
  }
  virtual bool has_grad(const Param& p) const = 0;  // somebody wrote it this step

  // After the last micro batch: clears gradients that nobody wrote, adds those of tied places.
  virtual void finish_grads(Ctx& c) = 0;
  // Gives the gradient memory back.
  virtual void end_step() = 0;

  // Flat views for the optimizer, of what this rank updates (Bucket::owned), in order of the units.
  virtual const std::vector<Bucket>& buckets() const = 0;
  virtual TensorView owned_master(size_t bucket) const = 0;
  virtual TensorView owned_copy(size_t bucket) const = 0;  // absent if there is none
  virtual TensorView owned_grad(size_t bucket) const = 0;  // absent outside a step, and of frozen buckets
  // The optimizer has changed what is owned of a bucket: brings the values to whoever reads them.
  virtual void publish(Ctx& c, size_t bucket) = 0;
};

// Holds a unit for the length of a scope.
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
