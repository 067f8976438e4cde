// Seam S5: the part of the model that this rank runs, and the messages to the stages before and behind it. Blocks do not know
// of it.
//
// Between stages goes one tensor, x + branch in the type of the residual stream, and back its gradient: what the fused add and
// norm of a block computes from both is the same bit for bit.
//
// Where a loss pools what routers of all layers did (engine/router_load.h), the sums of the layers so far go ahead behind the
// stream, and those of all layers come back behind its gradient: the last part has them before the first backward of a micro
// batch begins, so every schedule has the loss of the whole model.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "model/model.h"
#include "parallel/schedule.h"

namespace ravine {

// Blocks [begin, end) of a model.
struct BlockRange {
  size_t begin = 0, end = 0;
};
// What each of `parts` parts (stages * virtual stages, in the order of the model) runs: layers as even as can be, or as the
// list says; the embedding goes with the first part, the head with the last. More parts than layers, or a list that does not
// add up, is a UserError.
std::vector<BlockRange> split_model(const Model& model, int parts, const std::vector<int64_t>& layers);
// The paths of the first counts[p] layers of each part p, or of all its layers if it has fewer. A list of another length than
// that of `parts` is a UserError (train.recompute_layers).
std::set<std::string> first_layers(const Model& model, const std::vector<BlockRange>& parts,
                                   const std::vector<int64_t>& counts);
// The pipeline stage of each unit, by Unit::index: part p is on stage p % stages.
std::vector<int> stages_of_units(const Model& model, const std::vector<BlockRange>& parts, int stages);

class Stage {
 public:
  Stage(Model& model, const Ranks& ranks, std::vector<BlockRange> parts);

  int chunks() const { return static_cast<int>(parts_.size()) / ranks_.mesh().pipeline; }  // parts of this stage
  bool first(int chunk) const { return part(chunk) == 0; }
  bool last(int chunk) const { return part(chunk) + 1 == static_cast<int>(parts_.size()); }

  // A micro batch on its way: from forward to backward of one chunk. Holds no memory of its own.
  struct Micro {
    Ctx::UnderWay state;
    TensorRef in, out_x, out_branch;
  };
  // Receives from the part before, runs, sends to the part behind. c.begin() was called. With training what backward needs is
  // in the result, and c is free for other micro batches.
  Micro forward(Ctx& c, int chunk, bool training);
  void backward(Ctx& c, int chunk, Micro micro);
  void drain();  // waits for what was sent

 private:
  // A message under way, and the memory it needs until it has arrived. A new one waits for the one before.
  struct Message {
    Tensor tensor;
    Pending pending;
  };
  int part(int chunk) const { return chunk * ranks_.mesh().pipeline + ranks_.at().pipeline; }
  int stage_of(int part) const { return part % ranks_.mesh().pipeline; }
  void send(Message& slot, Tensor t, const Group& group, int to);
  Tensor receive(Ctx& c, const Group& group, int from);
  bool pools(Ctx& c) const;
  void send_pool(Ctx& c, Message& slot, const RouterPool& pool, const Group& group, int to);
  RouterPool receive_pool(Ctx& c, const Group& group, int from);
  void add_layers(Ctx& c, int chunk, RouterPool& pool) const;

  Model& model_;
  const Ranks& ranks_;
  std::vector<BlockRange> parts_;
  Message ahead_, back_, pool_ahead_, pool_back_;
};

}  // namespace ravine
