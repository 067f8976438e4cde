// Seam S2: where parameters live and when they are gathered. Implementations are in parallel/.
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

// One bucket = parameters of a unit that are treated alike: flat buffers that gather, scatter, optimizer and checkpoint handle in one
// call each.
struct Bucket {
  Unit* unit = nullptr;
  bool trainable = true;
  bool matrix = true;               // products read it (in the compute type); else kernels read the master
  bool cut = true;                  // over the tensor axis; else every tensor rank holds the same
  int64_t count = 0;                // elements, padded
  int64_t part = 0;                 // elements of one data rank's part; count where the bucket is too small to be divided
  Range mine;                       // what this rank updates: everything, or its part
  Range spoken;                     // what this rank alone answers for, in norms and checkpoints
  struct Span {
    Param* param;
    int64_t begin;                  // element offset in the flat buffers
    Shape shape;                    // of what this rank holds
    bool copy = false;              // a tensor rank before this one holds the same part and answers for it (key/value heads)
  };
  std::vector<Span> spans;          // by offset
};
// What of `spoken` counts in norms: all but copies, cut where partial sums begin anew wherever the part of a data rank begins.
std::vector<Range> counted_ranges(const Bucket& bucket);

inline constexpr int64_t kPartElements = 1024;  // norms take partial sums of so many elements; parts of data ranks begin at multiples

// A box of a parameter that a rank holds, and where its values lie: contiguous, of the shape of the box, which may reach beyond the
// end of the parameter's first dim (padding).
struct ParamBox {
  const Param* param = nullptr;
  std::vector<int64_t> begin;  // per dim
  TensorView view;
};

class ParamStore {
 public:
  virtual ~ParamStore() = default;
  // Starts bringing a unit here; acquire waits for it. Units are acquired around each block, forward and backward.
  virtual void prefetch(const Unit&) {}
  virtual void acquire(const Unit&) = 0;
  virtual void release(const Unit&) = 0;

  // The value as kernels read it (compute type for matrices, else the master's); its unit must be acquired.
  virtual TensorView value(const Param& p) const = 0;
  // Of the part of it that this rank holds.
  virtual Shape shape(const Param& p) const { return p.shape; }
  // The value as a lookup table or vector reads it: the master itself.
  virtual TensorView master(const Param& p) const = 0;
  // Everything of the masters that this rank holds: to be filled, from files.
  virtual std::vector<ParamBox> boxes() const = 0;

  // Makes room for the gradients of a unit in the arena (kept until end_step). Called before its backward.
  virtual void open_grads(Ctx& c, const Unit&) = 0;
  virtual void close_grads(Ctx& c, const Unit&) = 0;
  // Where to put the gradient. First writer of a step: accumulate = false, overwrite; later ones add. Absent view if frozen.
  virtual TensorView add_to_grad(const Param& p, bool& accumulate) = 0;
  virtual bool has_grad(const Param& p) const = 0;  // somebody wrote it this step

  // After the last micro batch: clears gradients that nobody wrote, adds those of tied places.
  virtual void finish_grads(Ctx& c) = 0;
  // Gives the gradient memory back.
  virtual void end_step() = 0;

  // Flat views for the optimizer, of what this rank updates (Bucket::mine), in order of the units.
  virtual const std::vector<Bucket>& buckets() const = 0;
  virtual TensorView flat_master(size_t bucket) const = 0;
  virtual TensorView flat_copy(size_t bucket) const = 0;  // 16-bit copy; absent if none
  virtual TensorView flat_grad(size_t bucket) const = 0;  // absent outside a step, and of frozen buckets
  // The optimizer has changed what is mine of a bucket: brings the values to whoever reads them.
  virtual void publish(Ctx&, size_t /*bucket*/) {}
  // The parameters whose values, masters or gradients lie in these elements, in order; of memory of others: none.
  virtual std::vector<const Param*> params_in(const TensorView&) const { return {}; }
  // Called between ops: lets messages that are under way move on.
  virtual void progress() {}
};

// Parameters that are only read: whatever training asks for is an Error.
class WeightsOnly : public ParamStore {
 public:
  void open_grads(Ctx&, const Unit&) final;
  void close_grads(Ctx&, const Unit&) final;
  TensorView add_to_grad(const Param&, bool&) final;
  bool has_grad(const Param&) const final { return false; }
  void finish_grads(Ctx&) final;
  void end_step() final {}
  const std::vector<Bucket>& buckets() const final { return none_; }
  TensorView flat_master(size_t) const final;
  TensorView flat_copy(size_t) const final;
  TensorView flat_grad(size_t) const final { return {}; }

 private:
  std::vector<Bucket> none_;
};

// Holds a unit for the length of a scope.
class Lease {
 public:
  Lease(ParamStore& store, const Unit& unit) : store_(store), unit_(unit) { store_.acquire(unit_); }
  ~Lease() { store_.release(unit_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  ParamStore& store_;
  const Unit& unit_;
};

}  // namespace ravine
