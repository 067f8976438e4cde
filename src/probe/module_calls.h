// Converts tensors of another program's decoder modules (Llama of Transformers) to records of Ravine's calls: inputs
// and outputs of modules are inputs and outputs of calls.
//
// Known modules are embedding, norms with the residual add before them, q/k/v and gate/up as joined products, RoPE,
// attention, the gate of the MLP, and products, with their backward passes. Other modules make no record.
//
// Tensors have the names of tools/trace_torch.py:
//   forward/MICRO/MODULE/in.0 | out.0       input and output of a module; for MODULE.attention q, k, v after RoPE.
//   backward/MICRO/MODULE/in.0 | out.0      gradients of these: of the whole tensor, over all its readers.
//   forward/MICRO/model.rotary_emb/table    half the cosines, half the sines of each position.
//   weights/PARAMETER                       before the step.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "probe/foreign_tensor.h"

namespace ravine {

// Access to the recorded tensors of one step of another program's model, for add_module_calls().
struct ModuleTensors {
  int64_t step = 0, micros = 0, layers = 0;
  std::function<std::optional<ForeignTensor>(const std::string& name)> find;  // returns a tensor; empty: not recorded
  // Returns the bytes of a stored tensor, valid until the next call.
  std::function<std::span<const std::byte>(const StoredPart&)> fetch;
};

// Appends to `to` the records of Ravine's calls that one step of another program's modules corresponds to. The order is
// the order of the run: forward passes, then backward passes, of all micro batches. Each stored tensor is read once.
void add_module_calls(const ModuleTensors& tensors, std::vector<DumpRecord>& to);

// Returns a record of one tensor of a call. of: the record without tensor. parts: the tensor, or several of one type
// that are concatenated by columns, or with join_rows by rows. Empty if a part is missing. If the parts are stored, the
// figures are computed from their elements, as a matrix whose columns are the last dim. fetch(part) returns the bytes
// of a part.
std::optional<DumpRecord> record_of_parts(DumpRecord of, const std::vector<std::optional<ForeignTensor>>& parts, bool join_rows,
                                          const std::function<std::span<const std::byte>(const StoredPart&)>& fetch);

// Returns the smallest number of layers of a model that has a module of this name: 8 for "..model.layers.7..", 0 for a
// name without a layer.
int64_t layers_in(const std::string& name);

}  // namespace ravine
