// One forward (and backward) pass on given token ids, with everything of interest written down. What comes out is in Hugging Face's
// terms: logits, hidden states, loss, gradients by weight name.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "infer/session.h"

namespace ravine {

struct TraceInput {
  int64_t rows = 0, columns = 0;
  std::vector<int32_t> ids, positions;   // rows * columns
  std::vector<int32_t> labels;           // already shifted, -100 ignored; empty: no loss
  std::vector<Segment> segments;
};

// input_ids [B,T], optional labels [B,T] (the shift by one happens here), attention_mask [B,T] (1s of a row must stand together) and
// position_ids [B,T]. UserErrors name file and tensor.
TraceInput read_trace_input(const std::string& path, const ModelFacts& facts);

struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> data;
};

// logits [B,T,V], hidden.0 .. hidden.L [B,T,C], loss [] if there are labels, grad.<name> with backward. In f32, or f64 when the
// session computes in f64.
std::vector<NamedTensor> trace(Session& session, const TraceInput& input, bool backward, const Recipe& recipe);

}  // namespace ravine
