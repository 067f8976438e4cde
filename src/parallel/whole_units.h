// Whole parameters, one unit at a time, of a model that is spread over ranks: what model folders and traces are written from.
// No rank holds more than the unit under way beside its own part.
#pragma once
#include <map>
#include <vector>

#include "model/model.h"
#include "parallel/flat_store.h"

namespace ravine {

// On rank 0 acquire brings a unit from the ranks that hold it: master(p) is the whole of p until another is acquired, in the
// type in which ranks hold it; what is packed in blocks has none. The others serve() meanwhile, until rank 0 calls end().
class UnitExport : public WeightSource {
 public:
  enum class Of : uint8_t { masters, gradients };  // gradients: those of the step, finished
  UnitExport(Model& model, FlatStore& store, const Ranks& ranks, std::vector<int> stages, Of of = Of::masters)
      : model_(model), store_(store), ranks_(ranks), stages_(std::move(stages)), of_(of) {}
  void acquire(const Unit& unit) override;
  void release(const Unit&) override {}  // kept until another is asked for: its parameters come one after another
  void end();
  void serve();

  TensorView value(const Param& p) const override { return master(p); }
  TensorView master(const Param& p) const override;
  std::vector<ParamBox> boxes() const override;

 private:
  // What this rank has of bucket b, and which of its elements that are.
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
