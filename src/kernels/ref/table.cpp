#include "kernels/ref/ref.h"

namespace ravine {

Kernels ref_kernels() {
  Kernels k;
  k.backend = "ref";
  k.instructions = cpu_instruction_set();
  k.embedding = ref::embedding_entry();
  k.embedding_backward = ref::embedding_backward_entry();
  k.rms_norm = ref::rms_norm_entry();
  k.rms_norm_backward = ref::rms_norm_backward_entry();
  k.layer_norm = ref::layer_norm_entry();
  k.layer_norm_backward = ref::layer_norm_backward_entry();
  k.head_norm = ref::head_norm_entry();
  k.head_norm_backward = ref::head_norm_backward_entry();
  k.unit_rows = ref::unit_rows_entry();
  k.unit_rows_backward = ref::unit_rows_backward_entry();
  k.matmul = ref::matmul_entry();
  k.sum_rows = ref::sum_rows_entry();
  k.rope = ref::rope_entry();
  k.attention = ref::attention_entry();
  k.attention_backward = ref::attention_backward_entry();
  k.softmax = ref::softmax_entry();
  k.softmax_backward = ref::softmax_backward_entry();
  k.swiglu = ref::swiglu_entry();
  k.swiglu_backward = ref::swiglu_backward_entry();
  k.gelu = ref::gelu_entry();
  k.gelu_backward = ref::gelu_backward_entry();
  k.dropout = ref::dropout_entry();
  k.loss_head = ref::loss_head_entry();
  k.cross_entropy = ref::cross_entropy_entry();
  k.add = ref::add_entry();
  k.cast = ref::cast_entry();
  k.fill = ref::fill_entry();
  k.sum_squares = ref::sum_squares_entry();
  k.adamw = ref::adamw_entry();
  k.sgd = ref::sgd_entry();
  return k;
}

}  // namespace ravine
