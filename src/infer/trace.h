// One forward (and backward) pass on given token ids, with everything of interest written down. What comes out is in Hugging
// Face's terms: logits, hidden states, loss, gradients by weight name. Of several ranks all run; what they find comes out whole
// on rank 0.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "infer/loaded_model.h"

namespace ravine {

struct TraceInput {
  int64_t rows = 0, columns = 0;
  std::vector<int32_t> ids, positions;  // rows * columns
  std::vector<int32_t> labels;          // already shifted, -100 ignored; empty: no loss
  std::vector<Segment> segments;
  std::string note;  // of positions that begin again under a mask; empty: nothing to say
};

// input_ids [B,T], optional labels [B,T] (the shift by one happens here), attention_mask [B,T] (1s of a row must stand
// together) and position_ids [B,T], which cut rows into parts as in data/fixed_batches.h. UserErrors name file and tensor.
TraceInput read_trace_input(const std::string& path, const ModelFacts& facts);

struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> data;
};

// Where it goes, on rank 0: every tensor is declared, then each is written, in that order.
class TraceOutput {
 public:
  virtual ~TraceOutput() = default;
  virtual void declare(const std::string& name, DType dtype, const Shape& shape) = 0;
  virtual void write(const NamedTensor& tensor) = 0;
};

// logits [B,T,V], hidden.0 .. hidden.L [B,T,C], of layers with experts router.<layer> i32 [B,T,K]: those chosen, best first;
// loss [] (with those of routers) if there are labels, grad.<name> with backward. In f32, or f64 when the
// model computes in f64. Rows are divided over data ranks. With parallel.sequence the tokens of each data rank must divide
// over its tensor ranks (UserError). Rank 0 holds one tensor at a time beside its own part; gradients are gathered by layers.
void trace(LoadedModel& loaded, const TraceInput& input, bool backward, const Recipe& recipe, TraceOutput& out);
std::vector<NamedTensor> trace(LoadedModel& loaded, const TraceInput& input, bool backward,
                               const Recipe& recipe);  // all of them, on rank 0

}  // namespace ravine
