// The learning rates equal those that Transformers recorded (tools/golden/copy_schedules.py), to the last bits.
#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"

namespace ravine {
namespace {

int64_t number(const Json& j, int64_t otherwise) { return j.is_null() ? otherwise : j.get<int64_t>(); }

ScheduleOptions options_of(const Json& curve, double base_lr) {
  ScheduleOptions o;
  o.type = curve["lr_scheduler_type"];
  if (o.type == "constant_with_warmup") o.type = "constant";
  if (o.type == "cosine_with_min_lr") o.type = "cosine";
  o.warmup_steps = number(curve["num_warmup_steps"], 0);
  o.min_lr_ratio = 0;
  for (auto& [key, value] : curve["kwargs"].items()) {
    if (key == "num_cycles")
      o.cycles = value;
    else if (key == "min_lr_rate" || key == "min_lr_ratio")
      o.min_lr_ratio = value;
    else if (key == "min_lr")
      o.min_lr_ratio = value.get<double>() / base_lr;
    else if (key == "power")
      o.power = value;
    else if (key == "lr_end")
      o.end_lr = value;
    else if (key == "timescale")
      o.timescale = value;
    else if (key == "num_decay_steps")
      o.decay_steps = value;
    else if (key == "num_stable_steps")
      o.stable_steps = value;
    else if (key == "warmup_type")
      o.warmup_type = value;
    else if (key == "decay_type")
      o.decay_type = value;
    else
      ADD_FAILURE() << key;
  }
  return o;
}

// Some curves are recorded past their end. Returns how many rates were compared.
int compare(const Json& all, const std::vector<int64_t>& steps) {
  const double base_lr = all["base_lr"];
  int compared = 0;
  for (auto& [name, curve] : all["huggingface"].items()) {
    if (curve["lr_scheduler_type"] == "cosine_warmup_with_min_lr") continue;  // not one of ours
    ScheduleOptions o = options_of(curve, base_lr);
    int64_t total = number(curve["num_training_steps"], 0);
    for (size_t i = 0; i < steps.size(); ++i, ++compared) {
      double want = curve["lr"][i], got = learning_rate(o, base_lr, total, steps[i]);
      EXPECT_NEAR(got, want, 1e-15 * want) << name << " at step " << steps[i];
    }
  }
  return compared;
}

TEST(Schedule, EqualsTransformers) {
  Json all = read_json(RAVINE_SOURCE_DIR "/tests/golden/schedules.json");
  EXPECT_GE(compare(all, all["steps"]), 16 * 40);
}

TEST(Schedule, EqualsTransformersAtEveryStep) {
  const char* shared = std::getenv("RAVINE_SHARED");
  if (!shared || !*shared) GTEST_SKIP() << "RAVINE_SHARED does not name the folder of recorded schedules";
  Json all = read_json(std::string(shared) + "/golden/optim/schedules.json");
  std::vector<int64_t> steps(all["steps"].get<size_t>());
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<int64_t>(i);
  EXPECT_GE(compare(all, steps), 16 * 200);
}

TEST(Schedule, LengthOfItsOwn) {
  ScheduleOptions o;
  o.type = "linear", o.warmup_steps = 0;
  EXPECT_EQ(learning_rate(o, 1, 100, 50), 0.5);
  o.steps = 200;
  EXPECT_EQ(learning_rate(o, 1, 100, 50), 0.75);
}

TEST(Schedule, EdgesStayFinite) {
  for (const char* type :
       {"constant", "linear", "cosine", "polynomial", "cosine_with_restarts", "inverse_sqrt", "warmup_stable_decay"})
    for (int64_t warmup : {0, 1, 10, 20})
      for (int64_t step : {0, 9, 10, 11, 1000}) {
        ScheduleOptions o;
        o.type = type, o.warmup_steps = warmup, o.decay_steps = 5;
        double lr = learning_rate(o, 1e-3, 10, step);
        EXPECT_TRUE(std::isfinite(lr) && lr >= 0 && lr <= 1e-3) << type << " " << warmup << " " << step << ": " << lr;
      }
}

TEST(Schedule, PolynomialMustFall) {
  ScheduleOptions o;
  o.type = "polynomial", o.end_lr = 0.1, o.warmup_steps = 0;
  EXPECT_THROW(learning_rate(o, 0.1, 10, 1), UserError);
}

}  // namespace
}  // namespace ravine
