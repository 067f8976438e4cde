// Whole parameters of a model that is distributed over ranks, one unit at a time: for writing model folders and traces.
// A rank holds no more than its own part and one unit.
#pragma once
#include <map>
#include <vector>

#include "model/model.h"
#include "parallel/flat_store.h"

namespace ravine {

// A source of whole weights (or gradients) of a model that is distributed over ranks, for exports. On rank 0,
// acquire(unit) receives a unit from the ranks that hold it. master(p) is then the whole parameter, in the type that
// ranks hold, until another unit is acquired. Packed parameters are left out. The other ranks call serve(), which
// returns when rank 0 calls end().
class UnitExport : public WeightSource {
 public:
  enum class Of : uint8_t { masters, gradients };  // gradients: the finished gradients of the step
  UnitExport(Model& model, FlatStore& store, const Ranks& ranks, std::vector<int> stages, Of of = Of::masters)
      : model_(model), store_(store), ranks_(ranks), stages_(std::move(stages)), of_(of) {}
  void acquire(const Unit& unit) override;
  // Does nothing: a unit is kept until another one is acquired, because its parameters are read one after another.
  void release(const Unit&) override {}
  void end();
  void serve();

  TensorView value(const Param& p) const override { return master(p); }
  TensorView master(const Param& p) const override;
  std::vector<ParamBox> boxes() const override;

 private:
  // Returns the view of the elements of bucket b on this rank, and their range in the bucket.
  std::pair<TensorView, Range> local(size_t b) const;
  DType type_of(const Bucket& bucket) const;
  void bring(const Unit& unit);
  Model& model_;
  FlatStore& store_;
  const Ranks& ranks_;
  std::vector<int> stages_;
  Of of_;
  const Unit* open_ = nullptr;
  struct Whole {
    Storage storage;
    DType type;
  };
  std::map<const Param*, Whole> whole_;
};

}  // namespace ravine
