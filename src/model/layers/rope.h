// Tables for rotary embeddings, in every scaling that published checkpoints of Llama and its relatives use.
#pragma once
#include <algorithm>
#include <map>
#include <vector>

#include "engine/ops/rope.h"
#include "model/config_reader.h"

namespace ravine {

// rope_theta, rope_scaling (transformers 4.x) or rope_parameters (5.x); of both, rope_scaling, as there, and a warning where they
// differ. Formulas: transformers' modeling_rope_utils; linear
// (kaiokendev), dynamic NTK (bloc97, emozilla), YaRN (Peng et al. 2023), llama3 (Meta 2024), longrope (Ding et al. 2024).
struct RopeSettings {
  enum Type { plain, linear, dynamic, yarn, llama3, longrope } type = plain;
  double theta = 10000, factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 1;                       // yarn, longrope: of cosines and sines
  double score_factor = 1;                           // yarn: m(mscale_all_dim), whose square DeepSeek multiplies scores by
  std::vector<double> short_factor, long_factor;     // longrope: of wavelengths, up to original_positions and beyond
  bool truncate = true;                              // yarn
  double original_positions = 0, max_positions = 0;
  double share = 1;          // of a head that is rotated, as the file says
  int64_t dims = 0;          // rotated dims of a head
  bool interleaved = false;  // neighbours are a pair
  // Whether a sequence that grows from `before` to `now` tokens has other angles from its first token on, so that cached keys
  // are void.
  bool turns_between(int64_t before, int64_t now) const {
    const auto far = [&](int64_t n) { return static_cast<double>(n) > original_positions; };
    return type == longrope && far(before) != far(now);
  }
  // Whether it has other angles in a longer sequence, though cached keys stay as they are, as in Transformers (dynamic).
  bool grows_between(int64_t before, int64_t now) const {
    return type == dynamic && std::max<double>(static_cast<double>(before), max_positions) !=
                                  std::max<double>(static_cast<double>(now), max_positions);
  }
};
// partial: the share of a head's dims that is rotated where the config does not say (under partial_rotary_factor); 0: whole
// heads only.
RopeSettings read_rope(ConfigReader& r, int64_t head_size, int64_t max_positions, double partial = 0,
                       const std::string& theta = "rope_theta");

// Inverse frequencies (dims/2 of them) for sequences of `length` (matters for dynamic and longrope), in double.
std::vector<double> inverse_frequencies(const RopeSettings& s, int64_t length);

// The [P, dims] table that the rope kernel reads; of longrope two; of dynamic one for each length beyond max_positions, made when
// a sequence of it comes: each sequence has its own, whatever others are in the batch. Grows as longer positions come.
class RopeTable {
 public:
  explicit RopeTable(RopeSettings s);
  RopeTable(const RopeTable&) = delete;
  void prepare(int64_t positions, DType dtype, DeviceKind device);
  const TensorView& view() const { return tables_.near; }
  const RopeTables& tables() const { return tables_; }

 private:
  TensorView of_length(int64_t length);
  TensorView made(Storage& memory, int64_t rows, int64_t length, DType dtype, DeviceKind device) const;

  RopeSettings settings_;
  Storage memory_, far_memory_;
  std::map<int64_t, Storage> of_lengths_;  // dynamic: the last ones, of as many rows as near
  RopeTables tables_;
};

}  // namespace ravine
