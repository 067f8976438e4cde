// The cpu backend, entry by entry.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/rows.h"

namespace ravine {

Kernels cpu_kernels(Bf16Products products) {
  Kernels k;
  k.backend = "cpu";
  k.instructions = products == Bf16Products::dot ? "avx512 with bf16 dot products" : cpu_instruction_set();
  k.embedding = embedding_entry();
  k.embedding_backward = embedding_backward_entry();
  k.rms_norm = rms_norm_entry();
  k.rms_norm_backward = rms_norm_backward_entry();
  k.layer_norm = layer_norm_entry();
  k.layer_norm_backward = layer_norm_backward_entry();
  k.head_norm = head_norm_entry();
  k.head_norm_backward = head_norm_backward_entry();
  k.unit_rows = unit_rows_entry();
  k.unit_rows_backward = unit_rows_backward_entry();
  k.matmul = matmul_entry(products);
  k.sum_rows = sum_rows_entry();
  k.rope = rope_entry();
  k.attention = attention_entry();
  k.attention_backward = attention_backward_entry();
  k.softmax = softmax_entry();
  k.softmax_backward = softmax_backward_entry();
  k.swiglu = swiglu_entry();
  k.swiglu_backward = swiglu_backward_entry();
  k.gelu = gelu_entry();
  k.gelu_backward = gelu_backward_entry();
  k.dropout = dropout_entry();
  k.loss_head = loss_head_entry();
  k.cross_entropy = cross_entropy_entry();
  k.add = add_entry();
  k.cast = cast_entry();
  k.fill = fill_entry();
  k.sum_squares = sum_squares_entry();
  k.adamw = adamw_entry();
  k.sgd = sgd_entry();
  return k;
}

}  // namespace ravine
