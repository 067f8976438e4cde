// Tables for rotary embeddings, in every scaling that published checkpoints of Llama and its relatives use.
#pragma once
#include <vector>

#include "engine/ctx.h"
#include "model/config_reader.h"

namespace ravine {

// rope_theta, rope_scaling (transformers 4.x) or rope_parameters (5.x). Formulas: transformers' modeling_rope_utils; linear (kaiokendev),
// dynamic NTK (bloc97, emozilla), YaRN (Peng et al. 2023), llama3 (Meta 2024).
struct RopeSettings {
  enum Type { plain, linear, dynamic, yarn, llama3 } type = plain;
  double theta = 10000, factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;                  // llama3
  double beta_fast = 32, beta_slow = 1, attention_factor = 1;         // yarn
  bool truncate = true;                                               // yarn
  double original_positions = 0, max_positions = 0;
  int64_t dims = 0;                                                   // rotated dims of a head
};
// partial: the share of a head's dims that is rotated where the config does not say (under partial_rotary_factor); 0: whole heads only.
RopeSettings read_rope(ConfigReader& r, int64_t head_size, int64_t max_positions, double partial = 0, const std::string& theta = "rope_theta");

// Inverse frequencies (dims/2 of them) for sequences of `length` (matters for dynamic only), in double.
std::vector<double> inverse_frequencies(const RopeSettings& s, int64_t length);

// The [P, dims] table that the rope kernel reads. Grows as longer positions come.
class RopeTable {
 public:
  explicit RopeTable(RopeSettings s) : settings_(s) {}
  void prepare(int64_t positions, DType dtype, DeviceKind device);
  TensorView view() const { return view_; }

 private:
  RopeSettings settings_;
  Storage memory_;
  TensorView view_;
  int64_t made_for_ = 0;
};

}  // namespace ravine
