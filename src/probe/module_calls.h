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

// The tensors of one step.
struct ModuleTensors {
  int64_t step = 0, micros = 0, layers = 0;
  std::function<std::optional<ForeignTensor>(const std::string& name)> find;  // returns a tensor; empty: not recorded
  // returns bytes, valid until the next call
  std::function<std::span<const std::byte>(const StoredPart&)> fetch;
};

// Appends the records of a step's calls, in the order of the run: forward passes, then backward passes, of all micro
// batches. Each stored tensor is read once.
void add_module_calls(const ModuleTensors& tensors, std::vector<DumpRecord>& to);

// Returns a record of the call `of` for one tensor, or for several joined ones of one type (columns, or rows if
// join_rows). Empty if a part is missing. Stored tensors get figures of their elements, as a matrix with the columns of
// the last dim.
std::optional<DumpRecord> record_of_parts(DumpRecord of, const std::vector<std::optional<ForeignTensor>>& parts, bool join_rows,
                                          const std::function<std::span<const std::byte>(const StoredPart&)>& fetch);

// Returns the number of layers in a name "..model.layers.7..": 8; 0 if there is none.
int64_t layers_in(const std::string& name);

}  // namespace ravine
