// Learning rates that follow the validation loss equal torch's ReduceLROnPlateau and Transformers' GreedyLR
// (tools/golden/make_plateau.py), also after a restore of the recorded state.
#include "optim/plateau.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/error.h"

namespace ravine {
namespace test_plateau {

ScheduleOptions options_of(const Json& c) {
  ScheduleOptions o;
  o.type = value_named<ScheduleType>(c["type"].get<std::string>()).value();
  for (auto& [key, value] : c["kwargs"].items()) {
    if (key == "factor")
      o.factor = value;
    else if (key == "patience")
      o.patience = value;
    else if (key == "cooldown")
      o.cooldown = value;
    else if (key == "warmup")
      o.raise_cooldown = value;
    else if (key == "min_lr")
      o.lowest_lr = value;
    else if (key == "max_lr")
      o.highest_lr = value;
    else if (key == "threshold")
      o.threshold = value;
    else if (key == "threshold_mode")
      o.threshold_mode = value_named<ThresholdMode>(value.get<std::string>());
    else if (key == "window_size")
      o.smooth_window = value;
    else if (key == "reset_start")
      o.reset_after = value;
    else
      EXPECT_EQ(key, "smooth");
  }
  return o;
}

TEST(Plateau, EqualsTorchAndTransformers) {
  const Json all = read_json(RAVINE_SOURCE_DIR "/tests/golden/plateau.json");
  const double base = all["base_lr"];
  int changes = 0;
  for (const Json& c : all["cases"]) {
    const ScheduleOptions o = options_of(c);
    const Json& losses = all["losses"][c["seed"].get<size_t>()];
    auto rate = std::make_unique<PlateauRate>(o, base);
    EXPECT_EQ(rate->rate(), base);
    double last = base;
    for (size_t i = 0; i < losses.size(); ++i) {
      rate->observe(losses[i]);
      const double want = c["rates"][i];
      ASSERT_NEAR(rate->rate(), want, 1e-15) << c["type"] << c["kwargs"].dump() << " after validation " << i;
      changes += want != last;
      last = want;
      if (i % 7 != 3) continue;  // a resume: everything but the state is new
      const Json state = Json::parse(rate->state().dump());
      rate = std::make_unique<PlateauRate>(o, base);
      rate->restore(state, "test");
    }
  }
  EXPECT_GT(changes, 200) << "the cases do change their rates";
}

TEST(Plateau, LossesThatAreNotFiniteAreNoBetter) {
  ScheduleOptions o;
  o.type = ScheduleType::reduce_lr_on_plateau, o.patience = 1, o.factor = 0.5;
  PlateauRate rate(o, 1);
  rate.observe(2);
  for (double loss : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) rate.observe(loss);
  EXPECT_EQ(rate.rate(), 0.5);
  o.type = ScheduleType::greedy, o.smooth_window = 3, o.lowest_lr = 0;
  PlateauRate smooth(o, 1);
  smooth.observe(std::numeric_limits<double>::quiet_NaN());
  for (int i = 0; i < 4; ++i) smooth.observe(2 - i);
  EXPECT_EQ(smooth.rate(), 1) << "the highest";
  EXPECT_NO_THROW(smooth.restore(Json::parse(smooth.state().dump()), "test"));
}

TEST(Plateau, DamagedStateIsRefusedByName) {
  ScheduleOptions o;
  o.type = ScheduleType::greedy;
  PlateauRate rate(o, 1);
  std::vector<std::pair<const char*, Json>> wrong;
  for (const char* key : {"rate", "best", "bad", "good", "cooling", "warming", "left_to_reset", "sum"})
    wrong.emplace_back(key, "x");
  for (const char* count : {"bad", "good", "cooling", "warming", "left_to_reset"})  // of the right type, and of no run
    wrong.emplace_back(count, int64_t{1} << 62), wrong.emplace_back(count, -1);
  wrong.emplace_back("rate", 1e308), wrong.emplace_back("rate", -1.0), wrong.emplace_back("window", Json::array({1.0}));
  for (const auto& [key, value] : wrong) {
    Json s = rate.state();
    s[key] = value;
    try {
      PlateauRate(o, 1).restore(s, "m.json");
      ADD_FAILURE() << key;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("m.json"), std::string::npos) << e.what();
    }
  }
  for (const Json& window : {Json(3), Json::array({"x"})}) {
    Json s = rate.state();
    s["window"] = window;
    EXPECT_THROW(rate.restore(s, "m.json"), UserError);
  }
}

}  // namespace test_plateau
}  // namespace ravine
