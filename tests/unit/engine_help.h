// A helper for tests of the engine: a store of parameters that only logs its calls.
#pragma once
#include <string>
#include <vector>

#include "engine/param_store.h"

namespace ravine {

class LoggingStore : public WeightSource, public GradStore {
 public:
  void prefetch(const Unit& u) override { log.push_back("prefetch " + u.name); }
  void acquire(const Unit& u) override { log.push_back("acquire " + u.name); }
  void release(const Unit& u) override { log.push_back("release " + u.name); }
  TensorView value(const Param&) const override { return {}; }
  TensorView master(const Param&) const override { return {}; }
  std::vector<ParamBox> boxes() const override { return {}; }
  void open_grads(Ctx&, const Unit& u) override { log.push_back("open " + u.name); }
  void close_grads(Ctx&, const Unit& u) override { log.push_back("close " + u.name); }
  TensorView add_to_grad(const Param&, bool&) override { return {}; }
  bool has_grad(const Param&) const override { return false; }
  void finish_grads(Ctx&) override {}
  void end_step() override {}
  const std::vector<Bucket>& buckets() const override { return none; }
  TensorView owned_master(size_t) const override { return {}; }
  TensorView owned_copy(size_t) const override { return {}; }
  TensorView owned_grad(size_t) const override { return {}; }
  void publish(Ctx&, size_t) override {}

  std::vector<std::string> log;
  std::vector<Bucket> none;
};

}  // namespace ravine
