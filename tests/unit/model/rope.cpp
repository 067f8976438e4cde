// For every rope_type, the frequencies and the table equal Transformers' (tools/golden/make_rope.py), in both spellings
// of config.json.
#include "model/layers/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace ravine {
namespace test_rope {

RopeSettings settings_of(const Json& config, int64_t head_size) {
  ConfigReader reader(config, "config.json");
  return read_rope(reader, head_size, config["max_position_embeddings"]);
}

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  const Json golden = read_json(std::string(RAVINE_SOURCE_DIR) + "/tests/golden/rope.json");
  ASSERT_GT(golden["cases"].size(), 20u);
  for (const Json& c : golden["cases"]) {
    Json new_style{{"max_position_embeddings", c["max_position_embeddings"]}, {"rope_parameters", c["rope_parameters"]}};
    Json old_style{{"max_position_embeddings", c["max_position_embeddings"]},
                   {"rope_theta", c["rope_parameters"]["rope_theta"]}};
    for (auto& [key, value] : c["rope_parameters"].items())
      if (key != "rope_theta") old_style["rope_scaling"][key == "rope_type" ? "type" : key] = value;
    for (const Json& config : {new_style, old_style}) {
      const RopeSettings s = settings_of(config, c["head_dim"]);
      const std::vector<double> got = inverse_frequencies(s, c["length"]);
      ASSERT_EQ(got.size(), c["inv_freq"].size());
      // f32 rounds the base (llama3: its ratios too) and the exponent, which is multiplied by ln(base). A handful of
      // operations follow.
      const double eps = std::numeric_limits<float>::epsilon(), bound = eps * (8 + std::log(got.front() / got.back()));
      for (size_t i = 0; i < got.size(); ++i) {
        const double want = c["inv_freq"][i];
        EXPECT_NEAR(got[i], want, bound * want) << config.dump() << " length " << c["length"] << " at " << i;
      }
      EXPECT_NEAR(s.attention_factor, c["attention_factor"].get<double>(), 1e-14) << config.dump();
    }
  }
}

// The table that kernels read: cos and sin of position times frequency, each times the type's factor (yarn's
// attention_factor). The two halves are side by side.
TEST(Rope, TheTableIsThatOfTransformers) {
  const Json golden = read_json(std::string(RAVINE_SOURCE_DIR) + "/tests/golden/rope.json");
  int with_factor = 0;
  for (const Json& c : golden["cases"]) {
    Json config{{"max_position_embeddings", c["max_position_embeddings"]}, {"rope_parameters", c["rope_parameters"]}};
    RopeTable table(settings_of(config, c["head_dim"]));
    const int64_t rows = c["length"];
    const double factor = c["attention_factor"], eps = std::numeric_limits<float>::epsilon();
    with_factor += factor != 1;
    for (DType type : {DType::f32, DType::f64}) {
      table.prepare(rows, type, DeviceKind::cpu);
      const RopeTables& tables = table.tables();
      const TensorView view = rows <= tables.limit || (tables.far.absent() && !tables.of_length) ? tables.near
                              : tables.of_length                                                 ? tables.of_length(rows)
                                                                                                 : tables.far;
      const auto half = static_cast<int64_t>(c["inv_freq"].size());
      ASSERT_EQ(view.cols(), 2 * half);
      ASSERT_GE(view.rows(), rows);
      const double first = c["inv_freq"].front(), last = c["inv_freq"].back(),
                   bound = eps * (8 + std::log(first / last));  // of the recorded frequencies, as above
      for (int64_t p : {int64_t{0}, int64_t{1}, rows / 2, rows - 1})
        for (int64_t j = 0; j < half; ++j) {
          const double angle = static_cast<double>(p) * c["inv_freq"][static_cast<size_t>(j)].get<double>(),
                       off = factor * (bound * angle + eps);
          auto at = [&](int64_t i) {
            return type == DType::f64 ? view.row<double>(p)[i] : static_cast<double>(view.row<float>(p)[i]);
          };
          EXPECT_NEAR(at(j), factor * std::cos(angle), off) << config.dump() << " position " << p << " at " << j;
          EXPECT_NEAR(at(j + half), factor * std::sin(angle), off) << config.dump() << " position " << p << " at " << j;
        }
    }
  }
  EXPECT_GT(with_factor, 2) << "types whose factor is not 1";
}

TEST(Rope, TheTableGrowsWithThePositions) {
  Json config{{"max_position_embeddings", 8}, {"rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2.0}}}};
  RopeTable table(settings_of(config, 8));
  const RopeSettings s = settings_of(config, 8);
  auto equal = [&](const TensorView& v, int64_t position, int64_t length) {
    const std::vector<double> f = inverse_frequencies(s, length);
    ASSERT_GT(v.rows(), position);
    for (size_t j = 0; j < f.size(); ++j)
      EXPECT_NEAR(v.row<double>(position)[j], std::cos(static_cast<double>(position) * f[j]),
                  2 * std::numeric_limits<double>::epsilon())
          << length << " at " << j;
  };
  EXPECT_EQ(table.tables().limit, 8);
  for (int64_t length : {4, 8, 20, 50, 20}) {
    table.prepare(length, DType::f64, DeviceKind::cpu);
    equal(table.view(), length - 1, 8);  // for all sequences up to the length of training
    if (length > 8) equal(table.tables().of_length(length), length - 1, length);
  }
  // of one batch, each its own
  for (int64_t length : {9, 30, 50, 9}) equal(table.tables().of_length(length), 8, length);
  for (int64_t length = 9; length < 200; ++length) equal(table.tables().of_length(length), 7, length);
}

// transformers 5.24, convert_rope_params_to_dict: rope_scaling replaces rope_parameters if it is set.
TEST(Rope, OfTwoSpellingsRopeScalingCounts) {
  const Json yarn = Json::parse(R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32})");
  const Json base{{"max_position_embeddings", 128}, {"rope_theta", 5000.0}};
  auto with = [&](const Json& scaling, const Json& parameters) {
    Json config = base;
    config["rope_scaling"] = scaling, config["rope_parameters"] = parameters;
    return inverse_frequencies(settings_of(config, 16), 128);
  };
  const Json plain{{"rope_type", "default"}, {"rope_theta", 777.0}};
  const auto alone = with(yarn, nullptr);
  testing::internal::CaptureStderr();
  EXPECT_EQ(with(yarn, plain), alone);
  EXPECT_EQ(with(plain, yarn), with(plain, nullptr));
  const std::string message = testing::internal::GetCapturedStderr();
  EXPECT_NE(message.find("config.json: rope_scaling and rope_parameters differ: rope_scaling counts"), std::string::npos)
      << message;
  EXPECT_NE(alone, with(plain, nullptr));
  testing::internal::CaptureStderr();
  EXPECT_EQ(with(Json::object(), yarn), alone);
  EXPECT_EQ(with(yarn, yarn), alone);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "they agree";
  Json twice = yarn;
  twice["type"] = "linear";
  testing::internal::CaptureStderr();
  EXPECT_EQ(with(twice, nullptr), alone);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("rope_scaling: rope_type and type differ"), std::string::npos);
  Json wrong = plain;
  wrong["surprise"] = 1;
  EXPECT_THROW(with(yarn, wrong), UserError) << "both are read";
}

TEST(Rope, WhatATypeNeedsIsRequiredByName) {
  for (const char* text :
       {R"({"rope_type":"linear"})", R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0})",
        R"({"rope_type":"spiral","factor":2.0})", R"({"rope_type":"linear","factor":2.0,"surprise":1})"}) {
    Json config{{"max_position_embeddings", 128}, {"rope_parameters", Json::parse(text)}};
    EXPECT_THROW(settings_of(config, 16), UserError) << text;
  }
}

}  // namespace test_rope
}  // namespace ravine
