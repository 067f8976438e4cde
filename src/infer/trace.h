// Runs one forward (and backward) pass over given token ids and writes its tensors: logits, hidden states, loss, and
// gradients, under Hugging Face's names. All ranks run it together; rank 0 gets the whole tensors.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "infer/loaded_model.h"

namespace ravine {

struct TraceInput {
  int64_t rows = 0, columns = 0;
  std::vector<int32_t> ids, positions;  // [rows * columns]
  std::vector<int32_t> labels;          // shifted by one; -100: ignored; empty: no loss
  std::vector<Segment> segments;
  std::string note;  // a note if positions begin again under a mask; else empty
};

// Reads the input of a trace from a safetensors file. Its tensors: input_ids [B,T]; optionally labels [B,T], which are
// shifted by one here; attention_mask [B,T], with adjacent 1s in each row; position_ids [B,T], which cut rows into
// parts as in data/fixed_batches.h. A fault is a UserError that names file and tensor.
TraceInput read_trace_input(const std::string& path, const ModelFacts& facts);

struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> data;
};

// Base class of the outputs of trace(), called on rank 0: each tensor is declared first, then all are written in the
// same order.
class TraceOutput {
 public:
  virtual ~TraceOutput() = default;
  virtual void declare(const std::string& name, DType dtype, const Shape& shape) = 0;
  virtual void write(const NamedTensor& tensor) = 0;
};

// Runs one forward (and, if `backward`, backward) pass over the input, and writes these tensors to `out`, as f32, or as
// f64 if the model computes in f64:
//   logits [B,T,V], hidden.0 .. hidden.L [B,T,C],
//   router.<layer> i32 [B,T,K] for layers with experts: the chosen experts, best first,
//   loss [] if there are labels, with the losses of routers, and grad.<name> if `backward`.
// Rows are divided over data ranks. With parallel.sequence, the tokens of each data rank must be a multiple of its
// tensor ranks (UserError). Rank 0 holds one tensor at a time besides its own part; gradients are gathered unit by
// unit.
void trace(LoadedModel& loaded, const TraceInput& input, bool backward, const Recipe& recipe, TraceOutput& out);
// Runs a trace like the function above, and returns all tensors on rank 0; empty on other ranks.
std::vector<NamedTensor> trace(LoadedModel& loaded, const TraceInput& input, bool backward, const Recipe& recipe);

}  // namespace ravine
