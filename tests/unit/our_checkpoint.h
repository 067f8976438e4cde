// A small Ravine checkpoint with distinct elements, to be written in the formats of other programs and read again.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/convert/weights.h"
#include "tests/unit/files_temporary.h"

namespace ravine {

inline std::vector<float> bits(const Elements& e) {
  std::vector<float> v(static_cast<size_t>(e.count()));
  e.read(0, std::as_writable_bytes(std::span(v)));
  return v;
}

// A Ravine checkpoint with distinct elements, written by the constructor; states by kinds ("m", "v").
class Ours {
 public:
  Ours(const TemporaryFolder& folder, const Json& model, const Json& scalars, const std::vector<std::string>& kinds,
       const std::vector<std::string>& frozen = {})
      : dir_(folder / "run/checkpoints") {
    std::filesystem::create_directories(dir_);
    const Geometry g = geometry_of(model, "test");
    float next = 0.25F;
    for (const Param& p : g.model->params().params()) {
      if (p.tied) continue;
      fill("weights", p, next);
      if (std::find(frozen.begin(), frozen.end(), p.name) == frozen.end())
        for (const std::string& kind : kinds) fill(kind, p, next);
    }
    TrainState s;
    s.scalars = scalars;
    for (auto& [name, values] : values_)
      s.tensors.push_back(
          {.name = name, .view = view_of(values.data(), DType::f32, shapes_.at(name)), .global = shapes_.at(name)});
    CheckpointWriter writer;
    writer.save(dir_, scalars.at("step"), s, 0);
    writer.wait();
  }
  std::string folder(int64_t step) const { return dir_ + "/" + checkpoint_name(step); }
  const std::map<std::string, std::vector<float>>& values() const { return values_; }

 private:
  void fill(const std::string& kind, const Param& p, float& next) {
    std::vector<float>& v = values_[kind + "/" + p.name];
    v.resize(static_cast<size_t>(p.shape.count()));
    // Distinct values in both types, so that a test sees which one was read.
    for (float& x : v) x = next, next += 1.0F / 512;
    shapes_.emplace(kind + "/" + p.name, p.shape);
  }
  std::string dir_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, Shape> shapes_;
};

inline const Json kScalars = {{"step", 5},
                              {"optimizer_steps", 4},
                              {"global_batch", 6},
                              {"tokens", 77},
                              {"seed", 9},
                              {"data", {{"any", {1, 2}}}},
                              {"loss_scale", {{"scale", 512.0}, {"step", 5}, {"last_overflow", 2}, {"hysteresis", 1}}}};

inline void expect_same(const ForeignState& got, const std::map<std::string, std::vector<float>>& want,
                        const std::string& what) {
  EXPECT_EQ(got.tensors.size(), want.size()) << what;
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(got.tensors.contains(name)) << what << ": " << name;
    EXPECT_EQ(got.tensors.at(name)->dtype(), DType::f32) << what << ": " << name;
    EXPECT_EQ(bits(*got.tensors.at(name)), values) << what << ": " << name;
  }
}

}  // namespace ravine
