// Seam S5: the part of the model that this rank runs, and the messages to the previous and the next stage. Blocks do
// not know of stages.
//
// One tensor is sent between stages: x + branch in the type of the residual stream; its gradient is sent back. The
// fused add and norm of a block computes the same bits from this sum as from x and branch.
//
// If a loss pools the routers of all layers (engine/router_load.h), two more messages are sent. The sums over the
// layers up to here follow the stream forward; the sums over all layers follow its gradient back. The last part has all
// sums before the first backward pass of a micro batch starts. So every schedule has the loss of the whole model.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/ranks.h"
#include "model/model.h"
#include "parallel/schedule.h"

namespace ravine {

// A range of blocks of a model: [begin, end).
struct BlockRange {
  size_t begin = 0, end = 0;
};
// Splits a model into `parts` pipeline parts (stages * virtual stages), and returns the range of blocks of each, in the
// order of the model. Layers are split evenly, or as `layers` lists them. The embedding is in the first part, the head
// in the last. More parts than layers, or a list with a wrong length or sum, is a UserError.
std::vector<BlockRange> split_model(const Model& model, int parts, const std::vector<int64_t>& layers);
// Returns the paths of the layers to recompute in full (train.recompute_layers): the first counts[p] layers of each
// part p, or of all its layers if it has fewer. A list whose length differs from `parts` is a UserError.
std::set<std::string> first_layers(const Model& model, const std::vector<BlockRange>& parts,
                                   const std::vector<int64_t>& counts);
// Returns the pipeline stage of each unit, by Unit::index: part p is on stage p % stages.
std::vector<int> stages_of_units(const Model& model, const std::vector<BlockRange>& parts, int stages);

// Runs the parts of the model that are on one pipeline stage, and sends its messages.
class Stage {
 public:
  Stage(Model& model, const Ranks& ranks, std::vector<BlockRange> parts);

  int chunks() const { return static_cast<int>(parts_.size()) / ranks_.mesh().pipeline; }  // parts of this stage
  bool first(int chunk) const { return part(chunk) == 0; }
  bool last(int chunk) const { return part(chunk) + 1 == static_cast<int>(parts_.size()); }

  // The state of a micro batch between the forward and the backward pass of a chunk. Owns no memory.
  struct Micro {
    Ctx::InFlight state;
    TensorRef in, out_x, out_branch;
  };
  // Runs the forward pass of a chunk: receives the stream from the previous part, runs the blocks, sends to the next
  // part. c.begin() must be called before. If training is true, the result holds the state for backward, and c is free
  // for other micro batches.
  Micro forward(Ctx& c, int chunk, bool training);
  void backward(Ctx& c, int chunk, Micro micro);
  void drain();  // waits for the messages that were sent

 private:
  // A message between stages that is being sent, and its memory until it has arrived. The next message in a slot waits
  // for the previous one.
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
