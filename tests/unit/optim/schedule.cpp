// The learning rates equal those that Transformers recorded (tools/golden/copy_schedules.py), to the last bits.
#include "optim/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "config/load.h"
#include "optim/class_schedules.h"

namespace ravine {
namespace test_schedule {

int64_t number(const Json& j, int64_t otherwise) { return j.is_null() ? otherwise : j.get<int64_t>(); }

ScheduleOptions options_of(const Json& curve, double base_lr) {
  ScheduleOptions o;
  std::string type = curve["lr_scheduler_type"];
  if (type == "constant_with_warmup") type = "constant";
  if (type == "cosine_with_min_lr") type = "cosine";
  o.type = value_named<ScheduleType>(type).value();
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
    else if (key == "warmup_lr_rate")
      o.warmup_lr_ratio = value.is_null() ? 0 : value.get<double>();
    else if (key == "warmup_type")
      o.warmup_type = value_named<RateShape>(value.get<std::string>()).value();
    else if (key == "decay_type")
      o.decay_type = value_named<RateShape>(value.get<std::string>()).value();
    else
      ADD_FAILURE() << key;
  }
  return o;
}

// Some curves are recorded past their end, where a run stays. Returns how many rates were compared.
int compare(const Json& all, const std::vector<int64_t>& steps) {
  const double base_lr = all["base_lr"];
  int compared = 0;
  for (auto& [name, curve] : all["huggingface"].items()) {
    ScheduleOptions o = options_of(curve, base_lr);
    int64_t total = number(curve["num_training_steps"], 0);
    for (size_t i = 0; i < steps.size(); ++i, ++compared) {
      const double want = curve["lr"][i], got = formula_rate(o, base_lr, total, steps[i]);
      if (steps[i] < total) EXPECT_EQ(learning_rate(o, base_lr, total, steps[i]), got) << name << " at step " << steps[i];
      EXPECT_NEAR(got, want, 1e-15 * want) << name << " at step " << steps[i];
    }
  }
  return compared;
}

TEST(Schedule, EqualsTransformers) {
  Json all = read_json(RAVINE_SOURCE_DIR "/tests/golden/schedules.json");
  EXPECT_GE(compare(all, all["steps"]), 17 * 40);
}

// For all types that have an end: the rate of step 20 of a schedule of 10 is the rate at its end.
TEST(Schedule, StaysAtItsLastValueBehindItsEnd) {
  ScheduleOptions o;
  o.warmup_steps = 2, o.min_lr_ratio = 0.1, o.steps = 10, o.decay_steps = 4, o.end_lr = 1e-5;
  using enum ScheduleType;
  for (const auto& [type, last] : {std::pair{linear, 0.0},
                                   {cosine, 1e-4},
                                   {cosine_with_restarts, 0.0},
                                   {polynomial, 1e-5},
                                   {warmup_stable_decay, 1e-4},
                                   {cosine_warmup_with_min_lr, 1e-4}}) {
    o.type = type;
    for (int64_t step : {10, 11, 15, 19, 30}) EXPECT_NEAR(learning_rate(o, 1e-3, 20, step), last, 1e-18) << name(type) << step;
  }
  o.type = cosine, o.cycles = 1;  // a whole wave ends at the full rate
  EXPECT_NEAR(learning_rate(o, 1e-3, 20, 14), 1e-3, 1e-18);
}

// For every type, with its own lengths beyond schedule.steps or below: one rate from end_of on, equal to the formula's
// rate there.
TEST(Schedule, StaysBehindTheEndWhateverTheType) {
  using enum ScheduleType;
  for (const auto& row : names_of(ScheduleType{}))
    for (int64_t warmup : {0, 2, 9, 10, 12})
      for (bool own : {false, true}) {
        ScheduleOptions o;
        ScheduleClasses& c = o.classes;
        o.type = row.value, o.warmup_steps = warmup, o.steps = 10, o.end_lr = 1e-5, o.decay_steps = own ? 15 : 4;
        o.stable_steps = own ? 4 : -1;
        c.warmup_num_steps = std::max<int64_t>(1, warmup), c.lr_warmup_steps = static_cast<double>(warmup);
        c.t_max = 6, c.t_0 = 6, c.decay_start_steps = 3, c.keep_steps = 4, c.final_steps = own ? 9 : 1, c.lr_end2 = 1e-6;
        c.cycle_min_lr = 1e-4, c.cycle_max_lr = 1e-3, c.cycle_first_step_size = own ? 7 : 3, c.decay_step_size = 2;
        c.decay_lr_rate = 1, c.decay_mom_rate = 0.01, c.lr_range_test_step_size = 3;
        c.lr_decay_style = own ? DecayStyle::inverse_square_root : DecayStyle::linear;
        const ScheduleEnd end = end_of(o, 40);
        EXPECT_EQ(std::string(end.key), "steps");
        EXPECT_LE(end.update, std::max<int64_t>(10, warmup) + 2) << row.name;
        const UpdateRates last = rates_of_update(o, 1e-3, 40, end.update);
        EXPECT_EQ(last.lr, formula_rate(o, 1e-3, 40, end.update)) << row.name;
        for (int64_t step = end.update; step < 40; ++step) {
          EXPECT_EQ(learning_rate(o, 1e-3, 40, step), last.lr) << row.name << " at step " << step;
          EXPECT_EQ(rates_of_update(o, 1e-3, 40, step).betas, last.betas) << row.name << " at step " << step;
        }
      }
  ScheduleOptions o;
  o.steps = 10, o.warmup_steps = 0;
  for (const auto& [type, last] :
       {std::pair{inverse_sqrt, 1e-3 / std::sqrt(10010.0 / 10000)},
        {WarmupDecayLR, 0.0},
        {CosineAnnealingLR, 1e-3 * 0.5 * (1 + std::cos(3.14159265358979323846 * 10 / 6))},
        {CosineAnnealingWarmRestarts, 1e-3 * 0.5 * (1 + std::cos(3.14159265358979323846 * 4 / 6))}}) {
    o.type = type, o.classes.t_0 = o.classes.t_max = 6, o.classes.warmup_num_steps = 2;
    EXPECT_NEAR(learning_rate(o, 1e-3, 40, 39), last, 1e-15) << name(type);
  }
}

TEST(Schedule, EqualsTransformersAtEveryStep) {
  const char* shared = std::getenv("RAVINE_SHARED");
  if (!shared || !*shared) GTEST_SKIP() << "RAVINE_SHARED does not name the folder of recorded schedules";
  Json all = read_json(std::string(shared) + "/golden/optim/schedules.json");
  std::vector<int64_t> steps(all["steps"].get<size_t>());
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<int64_t>(i);
  EXPECT_GE(compare(all, steps), 17 * 200);
}

// Config as options of these names would give it.
Config config_of(const Json& curve) {
  std::vector<Setting> settings = {{"optimizer.lr", curve["base_lr"].dump()}, {"schedule.type", curve["type"]}};
  for (auto& [key, value] : curve["args"].items())
    settings.push_back({"schedule." + key, value.is_string() ? value.get<std::string>() : value.dump()});
  return parse_config("", "x", settings);
}

// tools/golden/copy_class_schedules.py. DeepSpeed works in f64. MindFormers works in f32: angles of up to 3 pi carry
// two roundings into half a cosine. Tolerance: 10 units in the last place of the full rate for them, and two more for
// the sum.
TEST(Schedule, EqualsClassesOfDeepSpeedAndMindFormers) {
  const Json all = read_json(RAVINE_SOURCE_DIR "/tests/golden/class_schedules.json");
  const std::vector<int64_t> steps = all["steps"];
  std::set<std::string> types;
  for (const Json& curve : all["curves"]) {
    const Config c = config_of(curve);
    const double bound = c.optimizer.lr * (curve.contains("f32") ? 12 * 0x1p-24 : 1e-13);
    for (size_t i = 0; i < steps.size(); ++i) {
      const double rate = formula_rate(c.schedule, c.optimizer.lr, 200, steps[i]);
      const UpdateRates got = rates_of_update(c.schedule, c.optimizer.lr, 200, steps[i]);
      if (steps[i] < end_of(c.schedule, 200).length) EXPECT_EQ(got.lr, rate) << curve["type"] << " at step " << steps[i];
      EXPECT_NEAR(rate, curve["lr"][i].get<double>(), bound) << curve["type"] << curve["args"] << " at step " << steps[i];
      EXPECT_EQ(got.betas.has_value(), curve.contains("betas"));
      if (!got.betas) continue;
      EXPECT_NEAR((*got.betas)[0], curve["betas"][i][0].get<double>(), 1e-13) << curve["args"] << " at step " << steps[i];
      EXPECT_EQ((*got.betas)[1], curve["betas"][i][1].get<double>());
    }
    types.insert(curve["type"]);
  }
  types.insert("OptimizerParamScheduler");  // the next test
  for (const auto& row : names_of(ScheduleType{}))
    EXPECT_EQ(is_class_schedule(row.value), types.contains(row.name)) << row.name;
}

// tools/golden/make_param_scheduler.py: megatron-core works in f64.
TEST(Schedule, EqualsMegatronsAtEveryStep) {
  const Json all = read_json(RAVINE_SOURCE_DIR "/tests/golden/param_scheduler.json");
  const double base = all["base_lr"];
  const int64_t steps = all["steps"];
  std::set<std::string> styles;
  for (const Json& curve : all["curves"]) {
    Json args = curve;
    args.erase("lr");
    const Config c = config_of({{"base_lr", base}, {"type", "OptimizerParamScheduler"}, {"args", args}});
    for (int64_t t = 0; t < steps; ++t)
      EXPECT_NEAR(rates_of_update(c.schedule, c.optimizer.lr, steps, t).lr, curve["lr"][static_cast<size_t>(t)].get<double>(),
                  1e-13 * base)
          << args << " behind " << t << " updates";
    styles.insert(args["lr_decay_style"]);
  }
  EXPECT_EQ(styles.size(), 4U);
}

TEST(Schedule, ClassesRefuseWhatTheyCannotDo) {
  auto refused = [](std::vector<Setting> settings, const std::string& word) {
    try {
      parse_config("", "x", settings);
      ADD_FAILURE() << word;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  refused({{"schedule.type", "OneCycle"}, {"schedule.cycle_min_lr", "1e-5"}}, "schedule.cycle_max_lr");
  refused({{"schedule.type", "OneCycle"}, {"schedule.cycle_max_lr", "1e-5"}}, "schedule.cycle_min_lr");
  refused({{"schedule.type", "CosineAnnealingLR"}}, "schedule.t_max");
  refused({{"schedule.type", "CosineAnnealingWarmRestarts"}}, "schedule.t_0");
  refused({{"schedule.type", "WarmUpStableDecayLR"}}, "schedule.decay_start_steps");
  refused({{"schedule.type", "WarmUpStableDecayLR"}, {"schedule.decay_start_steps", "9"}, {"train.steps", "9"}},
          "schedule.decay_start_steps");
  refused({{"schedule.type", "PolynomialWithWarmUpLR"}, {"optimizer.lr", "1e-8"}}, "schedule.lr_end");
  refused({{"schedule.type", "WarmupLR"}, {"schedule.warmup_type", "cosine"}}, "schedule.warmup_type");
  refused({{"schedule.type", "linear"}, {"schedule.warmup_type", "log"}}, "schedule.warmup_type");
  ScheduleOptions o;
  o.type = ScheduleType::OneCycle, o.classes.decay_step_size = 1, o.classes.decay_mom_rate = 1;
  EXPECT_NO_THROW(class_betas(o, 4000));
  EXPECT_THROW(class_betas(o, 4001), UserError);
}

ScheduleOptions schedule(ScheduleType type, int64_t warmup = 0, double min_lr_ratio = 0) {
  ScheduleOptions o;
  o.type = type, o.warmup_steps = warmup, o.min_lr_ratio = min_lr_ratio;
  return o;
}

// get_wsd_schedule: the shapes of warmup and decay, the stable part, and the final rate. 100 steps: 10 up, 60 stable,
// 30 down.
TEST(Schedule, ShapesOfWarmUpAndDecay) {
  const double pi = 3.14159265358979323846;
  const std::map<RateShape, double (*)(double)> rises = {
      {RateShape::linear, [](double p) { return p; }},
      {RateShape::cosine, [](double p) { return 0.5 * (1 - std::cos(3.14159265358979323846 * p)); }},
      {RateShape::one_minus_sqrt, [](double p) { return 1 - std::sqrt(1 - p); }}};
  for (const auto& [up, rise] : rises)
    for (const RateShape down : {RateShape::linear, RateShape::cosine, RateShape::one_minus_sqrt})
      for (double least : {0.0, 0.25}) {
        ScheduleOptions o = schedule(ScheduleType::warmup_stable_decay, 10, least);
        o.decay_steps = 30, o.warmup_type = up, o.decay_type = down;
        auto at = [&](int64_t step) { return learning_rate(o, 2, 100, step) / 2; };
        for (int64_t step = 0; step < 10; ++step)
          EXPECT_NEAR(at(step), least + (1 - least) * rise(static_cast<double>(step) / 10), 1e-15) << name(up) << step;
        EXPECT_EQ(at(10), 1);
        EXPECT_EQ(at(69), 1);
        for (int64_t step = 70; step < 100; ++step) {
          const double p = static_cast<double>(step - 70) / 30;
          const double fall = down == RateShape::linear   ? 1 - p
                              : down == RateShape::cosine ? 0.5 * (1 + std::cos(pi * p))
                                                          : 1 - std::sqrt(p);
          EXPECT_NEAR(at(step), least + (1 - least) * fall, 1e-15) << name(down) << step;
        }
        for (int64_t step : {100, 101, 1000}) EXPECT_EQ(at(step), least);
        o.stable_steps = 20;  // said, not worked out: the decay begins at 30
        EXPECT_EQ(at(29), 1);
        EXPECT_LT(at(31), 1);
        EXPECT_EQ(at(60), least);
      }
}

// The schedule may be shorter than the run. Its parameters may have their defaults, which equal Transformers' defaults.
TEST(Schedule, BehindTheEndAndDefaults) {
  const double pi = 3.14159265358979323846;
  for (double cycles : {0.0, 1.0, 2.0, 2.5}) {
    ScheduleOptions o = schedule(ScheduleType::cosine_with_restarts, 10);
    o.cycles = cycles;
    for (int64_t step : {110, 111, 150, 1000})
      EXPECT_EQ(learning_rate(o, 1, 110, step), 0) << cycles << " cycles, step " << step;
    const double given = cycles > 0 ? cycles : 1;
    for (int64_t step : {10, 35, 60, 85, 109}) {
      const double phase = given * static_cast<double>(step - 10) / 100;
      EXPECT_NEAR(learning_rate(o, 1, 110, step), 0.5 * (1 + std::cos(pi * (phase - std::floor(phase)))), 1e-14)
          << cycles << " " << step;
    }
  }
  for (double cycles : {0.0, 0.5, 1.5}) {
    ScheduleOptions o = schedule(ScheduleType::cosine, 10, 0.1);
    o.cycles = cycles;
    for (int64_t step : {10, 50, 110, 160, 210}) {  // behind the end it stays where its wave ended
      const double done = static_cast<double>(std::min<int64_t>(step, 110) - 10) / 100;
      const double wave = 0.5 * (1 + std::cos(2 * pi * (cycles > 0 ? cycles : 0.5) * done));
      EXPECT_NEAR(learning_rate(o, 1, 110, step), 0.1 + 0.9 * wave, 1e-14) << cycles << " " << step;
    }
  }
  EXPECT_EQ(learning_rate(schedule(ScheduleType::linear, 10), 1, 110, 60), 0.5);
  for (int64_t step : {110, 111, 500}) EXPECT_EQ(learning_rate(schedule(ScheduleType::linear, 10), 1, 110, step), 0);
  ScheduleOptions p = schedule(ScheduleType::polynomial, 10);
  p.power = 2, p.end_lr = 0.01;
  EXPECT_NEAR(learning_rate(p, 0.1, 110, 60), 0.09 * 0.25 + 0.01, 1e-16);
  for (int64_t step : {110, 111, 500}) EXPECT_NEAR(learning_rate(p, 0.1, 110, step), 0.01, 1e-17);
  ScheduleOptions r = schedule(ScheduleType::inverse_sqrt, 10);
  EXPECT_NEAR(learning_rate(r, 1, 100, 40), std::sqrt(10.0 / 40), 1e-15) << "the timescale is the warm-up";
  r.timescale = 90;
  EXPECT_NEAR(learning_rate(r, 1, 100, 40), std::sqrt(90.0 / 120), 1e-15);
  EXPECT_NEAR(learning_rate(schedule(ScheduleType::inverse_sqrt), 1, 40000, 30000), 0.5, 1e-15)
      << "10000 where there is no warm-up";
  for (const ScheduleType type : {ScheduleType::constant, ScheduleType::linear, ScheduleType::cosine,
                                  ScheduleType::cosine_with_restarts, ScheduleType::polynomial, ScheduleType::inverse_sqrt})
    for (int64_t step : {0, 3, 9})
      EXPECT_EQ(learning_rate(schedule(type, 10), 3, 100, step), 3 * (static_cast<double>(step) / 10)) << name(type);
}

// get_cosine_with_min_lr_schedule_with_warmup_lr_rate: its first rate is not 0, and the last step of the warmup has the
// full rate.
TEST(Schedule, WarmUpFromARateOfItsOwn) {
  ScheduleOptions o = schedule(ScheduleType::cosine_warmup_with_min_lr, 5, 0.1);
  EXPECT_EQ(learning_rate(o, 2, 25, 0), 0.4);
  EXPECT_EQ(learning_rate(o, 2, 25, 4), 2);
  o.warmup_lr_ratio = 0.25;
  EXPECT_EQ(learning_rate(o, 2, 25, 0), 0.5);
  EXPECT_EQ(learning_rate(o, 2, 25, 2), 1.25);
  EXPECT_EQ(learning_rate(o, 2, 25, 4), 2);
  EXPECT_NEAR(learning_rate(o, 2, 25, 14), 2 * (0.1 + 0.9 * 0.5), 1e-15) << "half of the wave, a step ahead";
  EXPECT_NEAR(learning_rate(o, 2, 25, 24), 0.2, 1e-15);
}

TEST(Schedule, LengthOfItsOwn) {
  ScheduleOptions o;
  o.type = ScheduleType::linear, o.warmup_steps = 0;
  EXPECT_EQ(learning_rate(o, 1, 100, 50), 0.5);
  o.steps = 200;
  EXPECT_EQ(learning_rate(o, 1, 100, 50), 0.75);
}

TEST(Schedule, EdgesStayFinite) {
  for (const auto& [type, word] : names_of(ScheduleType{}))
    for (int64_t warmup : {0, 1, 10, 20})
      for (int64_t step : {0, 9, 10, 11, 1000}) {
        ScheduleOptions o;
        o.type = type, o.warmup_steps = warmup, o.decay_steps = 5;
        double lr = learning_rate(o, 1e-3, 10, step);
        const bool rises = type == ScheduleType::LRRangeTest, falls_on = type == ScheduleType::WarmUpStableDecayLR && step > 10;
        EXPECT_TRUE(std::isfinite(lr) && (lr >= 0 || falls_on) && (lr <= 1e-3 || rises))
            << word << " " << warmup << " " << step << ": " << lr;
      }
}

TEST(Schedule, PolynomialMustFall) {
  ScheduleOptions o;
  o.type = ScheduleType::polynomial, o.end_lr = 0.1, o.warmup_steps = 0;
  EXPECT_THROW(learning_rate(o, 0.1, 10, 1), UserError);
}

}  // namespace test_schedule
}  // namespace ravine
