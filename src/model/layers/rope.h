// Tables for rotary embeddings, with all scalings in published checkpoints of Llama and its relatives.
#pragma once
#include <algorithm>
#include <map>
#include <vector>

#include "engine/ops/rope.h"
#include "model/config_reader.h"

namespace ravine {

// The settings of RoPE, from the fields rope_theta, rope_scaling (transformers 4.x) or rope_parameters (5.x). If both
// are set, rope_scaling is used, as in Transformers, with a warning if they differ. Formulas: transformers'
// modeling_rope_utils; linear (kaiokendev), dynamic NTK (bloc97, emozilla), YaRN (Peng et al. 2023), llama3 (Meta
// 2024), longrope (Ding et al. 2024).
struct RopeSettings {
  enum Type { plain, linear, dynamic, yarn, llama3, longrope } type = plain;
  double theta = 10000, factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 1;                       // yarn, longrope: factor of cosines and sines
  // yarn: m(mscale_all_dim); DeepSeek multiplies the scores of attention by its square.
  double score_factor = 1;
  // longrope: factors of the wavelengths. short_factor: for sequences up to original_positions; long_factor: for longer
  // ones.
  std::vector<double> short_factor, long_factor;
  bool truncate = true;  // yarn
  double original_positions = 0, max_positions = 0;
  double share = 1;          // rotated share of a head, as in the file
  int64_t dims = 0;          // rotated dims of a head
  bool interleaved = false;  // a pair is two neighbouring dims
  // longrope: true if a sequence that grows from `before` to `now` tokens has other angles of rotation from its first
  // token on. Cached keys are then invalid.
  bool turns_between(int64_t before, int64_t now) const {
    const auto far = [&](int64_t n) { return static_cast<double>(n) > original_positions; };
    return type == longrope && far(before) != far(now);
  }
  // dynamic: true if a sequence that grows from `before` to `now` tokens gets other angles of rotation. Cached keys
  // stay valid, as in Transformers.
  bool grows_between(int64_t before, int64_t now) const {
    return type == dynamic && std::max<double>(static_cast<double>(before), max_positions) !=
                                  std::max<double>(static_cast<double>(now), max_positions);
  }
};
// Reads the settings of RoPE from a config.json. theta: name of the field with the base. partial: the rotated share of
// a head if the config does not set partial_rotary_factor; 0: only whole heads are allowed.
RopeSettings read_rope(ConfigReader& r, int64_t head_size, int64_t max_positions, double partial = 0,
                       const std::string& theta = "rope_theta");

// Returns the dims/2 inverse frequencies of RoPE for sequences of `length` tokens (used by dynamic and longrope).
std::vector<double> inverse_frequencies(const RopeSettings& s, int64_t length);

// The tables of cosines and sines that the rope kernel reads, [P, dims]. longrope has two tables. dynamic has one table
// for each length beyond max_positions, made when a sequence of this length occurs. Each sequence uses its own table,
// independent of the batch. Tables grow if longer positions occur.
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
  // dynamic: the latest tables by sequence length, each with as many rows as `near`.
  std::map<int64_t, Storage> of_lengths_;
  RopeTables tables_;
};

}  // namespace ravine
