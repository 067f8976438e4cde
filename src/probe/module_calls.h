// The names of a decoder's modules in other programs (Llama of Transformers) as our calls: what a module has read and returned
// is what our calls read and write.
//
// Known are embedding, norms with the residual add in front, q/k/v and gate/up side by side, RoPE, attention, the gate of the
// MLP, products, and the backward pass of all these. Modules of other names make no record.
//
// Tensors have the names of tools/trace_torch.py:
//   forward/MICRO/MODULE/in.0 | out.0       what a module reads, returns; of MODULE.attention q, k, v behind RoPE
//   backward/MICRO/MODULE/in.0 | out.0      gradients of these, of the whole tensor, whoever else reads it
//   forward/MICRO/model.rotary_emb/table    half the cosines, half the sines of each position
//   weights/PARAMETER                       before the step
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "probe/foreign_tensor.h"

namespace ravine {

struct ModuleTensors {
  int64_t step = 0, micros = 0, layers = 0;
  std::function<std::optional<ForeignTensor>(const std::string& name)> find;  // none: not recorded
  std::function<std::span<const std::byte>(const StoredPart&)> fetch;         // valid until the next call
};

// Adds records of the step's calls, in the order of the run: forward and backward passes of all micro batches. Each stored
// tensor is read once, alone.
void add_module_calls(const ModuleTensors& tensors, std::vector<DumpRecord>& to);

// One tensor of the call `of`, or several of one type side by side (or row after row); none where a part is missing. Of what is
// stored the figures are those of its elements, as a matrix of the last dim's columns.
std::optional<DumpRecord> record_of_parts(DumpRecord of, const std::vector<std::optional<ForeignTensor>>& parts, bool join_rows,
                                          const std::function<std::span<const std::byte>(const StoredPart&)>& fetch);

// Layers that a name "..model.layers.7.." counts, 8; 0 without one.
int64_t layers_in(const std::string& name);

}  // namespace ravine
