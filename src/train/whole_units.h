// Whole parameters, one unit at a time, of a model that is spread over ranks: what model folders are read into and written from. No rank
// holds more than the unit under way beside its own part.
#pragma once
#include <map>
#include <vector>

#include "model/model.h"
#include "parallel/flat_store.h"

namespace ravine {

// master(p) is the whole of p while its unit is acquired, in the type of the masters. Training calls are Errors.
class WholeUnits : public ParamStore {
 public:
  TensorView value(const Param& p) const override { return master(p); }
  TensorView master(const Param& p) const override;
  void open_grads(Ctx&, const Unit&) override;
  void close_grads(Ctx&, const Unit&) override;
  TensorView add_to_grad(const Param&, bool&) override;
  bool has_grad(const Param&) const override { return false; }
  void finish_grads(Ctx&) override;
  void end_step() override {}
  const std::vector<Bucket>& buckets() const override { return none_; }
  TensorView flat_master(size_t) const override { return {}; }
  TensorView flat_copy(size_t) const override { return {}; }
  TensorView flat_grad(size_t) const override { return {}; }

 protected:
  void open(const Unit& unit, DType type);
  void close() { whole_.clear(); }
  std::map<const Param*, Storage> whole_;
  DType type_ = DType::f32;
  std::vector<Bucket> none_;
};

// What is written into a unit goes into the store when the unit is released: what this rank holds of it. Units of which it holds nothing are
// on meta.
class UnitImport : public WholeUnits {
 public:
  UnitImport(Model& model, FlatStore& store) : model_(model), store_(store) {}
  void acquire(const Unit& unit) override;
  void release(const Unit& unit) override;

 private:
  Model& model_;
  FlatStore& store_;
};

// On rank 0 acquire brings a unit from the ranks that hold it. The others serve() meanwhile, until rank 0 calls end().
class UnitExport : public WholeUnits {
 public:
  UnitExport(Model& model, FlatStore& store, const Ranks& ranks, std::vector<int> stages)
      : model_(model), store_(store), ranks_(ranks), stages_(std::move(stages)) {}
  void acquire(const Unit& unit) override;
  void release(const Unit&) override {}  // kept until another is asked for: its parameters come one after another
  void end();
  void serve();

 private:
  void bring(const Unit& unit);
  Model& model_;
  FlatStore& store_;
  const Ranks& ranks_;
  std::vector<int> stages_;
  const Unit* here_ = nullptr;
};

}  // namespace ravine
