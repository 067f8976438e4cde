// Every rope_type gives the frequencies that Transformers gives (tools/golden/make_rope.py), in either spelling of config.json.
#include "model/layers/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace ravine {
namespace {

RopeSettings settings_of(const Json& config, int64_t head_size) {
  ConfigReader reader(config, "config.json");
  return read_rope(reader, head_size, config["max_position_embeddings"]);
}

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  const Json golden = read_json(std::string(RAVINE_SOURCE_DIR) + "/tests/golden/rope.json");
  ASSERT_GT(golden["cases"].size(), 20u);
  for (const Json& c : golden["cases"]) {
    Json new_style{{"max_position_embeddings", c["max_position_embeddings"]}, {"rope_parameters", c["rope_parameters"]}};
    Json old_style{{"max_position_embeddings", c["max_position_embeddings"]}, {"rope_theta", c["rope_parameters"]["rope_theta"]}};
    for (auto& [key, value] : c["rope_parameters"].items())
      if (key != "rope_theta") old_style["rope_scaling"][key == "rope_type" ? "type" : key] = value;
    for (const Json& config : {new_style, old_style}) {
      const RopeSettings s = settings_of(config, c["head_dim"]);
      const std::vector<double> got = inverse_frequencies(s, c["length"]);
      ASSERT_EQ(got.size(), c["inv_freq"].size());
      // f32 rounds the base (llama3: its ratios too) and the exponent, which weighs ln(base), then a handful of operations.
      const double eps = std::numeric_limits<float>::epsilon(), bound = eps * (8 + std::log(got.front() / got.back()));
      for (size_t i = 0; i < got.size(); ++i) {
        const double want = c["inv_freq"][i];
        EXPECT_NEAR(got[i], want, bound * want) << config.dump() << " length " << c["length"] << " at " << i;
      }
      EXPECT_NEAR(s.attention_factor, c["attention_factor"].get<double>(), 1e-14) << config.dump();
    }
  }
}

TEST(Rope, WhatATypeNeedsIsAskedForByName) {
  for (const char* text : {R"({"rope_type":"linear"})", R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0})",
                           R"({"rope_type":"spiral","factor":2.0})", R"({"rope_type":"linear","factor":2.0,"surprise":1})"}) {
    Json config{{"max_position_embeddings", 128}, {"rope_parameters", Json::parse(text)}};
    EXPECT_THROW(settings_of(config, 16), UserError) << text;
  }
}

}  // namespace
}  // namespace ravine
