// A small training state for tests of checkpoints. Every byte is a function of the step.
#pragma once
#include <cstring>

#include "device/device.h"
#include "io/checkpoint.h"

class TestState {
 public:
  // Three units of `rows` x 48 weights, with two moments each; a bf16 vector, a count and a scalar out of line.
  explicit TestState(int64_t rows) : rows_(rows), memory_(ravine::DeviceKind::cpu, 3 * 3 * rows * 48 * 4), odd_(64) {}

  void fill(int64_t step) {
    for (size_t u = 0; u < 3; ++u) fill_unit(u, step);
    for (size_t i = 0; i < odd_.size(); ++i) odd_[i] = static_cast<uint16_t>(step * 31 + static_cast<int64_t>(i));
    count_ = step;
    scalar_ = static_cast<float>(step) / 3;
  }
  void fill_unit(size_t unit, int64_t step) {
    uint32_t* p = unit_data(unit);
    for (int64_t i = 0; i < unit_count(); ++i) p[i] = word(unit, step, i);
  }
  // Returns the first tensor that differs from fill(step); "" if all are equal.
  std::string difference(int64_t step) const {
    for (size_t u = 0; u < 3; ++u)
      for (int64_t i = 0; i < unit_count(); ++i)
        if (unit_data(u)[i] != word(u, step, i)) return fmt::format("unit {} word {}", u, i);
    for (size_t i = 0; i < odd_.size(); ++i)
      if (odd_[i] != static_cast<uint16_t>(step * 31 + static_cast<int64_t>(i))) return "odd";
    return count_ == step && scalar_ == static_cast<float>(step) / 3 ? "" : "scalars";
  }
  ravine::TrainState state() {
    using namespace ravine;
    TrainState s;
    for (size_t u = 0; u < 3; ++u)
      for (int64_t k = 0; k < 3; ++k)
        s.tensors.push_back({fmt::format("{}.layer{}", std::string("wmv")[static_cast<size_t>(k)], u),
                             view_of(unit_data(u) + k * rows_ * 48, DType::f32, {rows_, 48}),
                             {rows_, 48},
                             {},
                             u});
    s.tensors.push_back({"odd", view_of(odd_.data() + 1, DType::bf16, {63}), {63}, {}, 2});
    s.tensors.push_back({"odd", view_of(odd_.data(), DType::bf16, {0}), {63}, {63}, 2});
    s.tensors.push_back({"count", view_of(&count_, DType::i64, {1}), {1}, {}, 2});
    s.tensors.push_back({"scalar", view_of(&scalar_, DType::f32, {}), {}, {}, 2});
    s.scalars = {{"lr", 0.1 + 0.2}, {"seed", uint64_t{18446744073709551615u}}, {"text", "数据"}};
    s.program = "ravine test";
    s.instructions = "avx2";
    return s;
  }
  void load(const ravine::CheckpointReader& reader) {
    for (const auto& t : state().tensors) reader.read(t.name, t.view, t.global, t.begin);
    odd_[0] = static_cast<uint16_t>(count_ * 31);
  }
  int64_t rows() const { return rows_; }

 private:
  int64_t unit_count() const { return 3 * rows_ * 48; }
  uint32_t* unit_data(size_t u) const {
    return reinterpret_cast<uint32_t*>(memory_.data()) + static_cast<int64_t>(u) * unit_count();
  }
  static uint32_t word(size_t unit, int64_t step, int64_t i) {
    return static_cast<uint32_t>(
        (static_cast<uint64_t>(i) * 2654435761u + static_cast<uint64_t>(step) * 40503u + unit * 977u) >> 3);
  }
  int64_t rows_;
  ravine::Storage memory_;
  std::vector<uint16_t> odd_;
  int64_t count_ = 0;
  float scalar_ = 0;
};
