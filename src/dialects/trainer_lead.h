// Translates the flags of the Trainer, by topic: model, data, length and precision (trainer.cpp), log lines and files
// (trainer_files.cpp), optimizer and learning rate (trainer_rates.cpp).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/yaml_json.h"
#include "dialects/deepspeed_auto.h"
#include "dialects/trainer_outcome.h"

namespace ravine {

struct HfSchedule;

// Translates the flags of a Transformers training script into options; all() does it, and stores the result in `out`.
// config: the DeepSpeed config; null if there is none. misread: true if a flag was refused, so that missing flags are
// not reported.
class TrainerFlagsLead {
 public:
  TrainerFlagsLead(const TrainerArguments& args, const DeepSpeedConfig* config, const TrainerFacts& facts, TrainerOutcome& out,
                   bool misread)
      : a_(args), c_(config), facts_(facts), out_(out), misread_(misread) {}
  void all();

 private:
  void refuse(std::string_view flag, const std::string& why) {
    if (misread_ && !a_.was_given(flag)) return;
    out_.refusals.push_back(key_refusal(written(flag), "command line", why));
  }
  std::string written(std::string_view flag) const {
    const auto found = a_.given.find(flag);
    return found == a_.given.end() ? "--" + std::string(flag) : found->second;
  }
  void mark_unused(std::string_view flag, const std::string& reason) {
    if (!reason.empty()) inert_[std::string(flag)] = reason;
  }
  void set(const std::string& option, Json value, std::string_view flag) { out_.set(option, std::move(value), written(flag)); }
  void use(std::string_view flag, const std::string& option) {
    if (a_.has(flag)) set(option, json_of(a_.value(flag)), flag);
  }

  void model();
  void data();
  bool evaluates() const;
  // Returns the value of a flag as a number of steps; a value below 1 is a share of the steps of the run,
  // rounded up.
  int64_t steps_of(std::string_view flag);
  // Returns the interval, in steps, of a strategy flag (such as --save_strategy). no: `never`; steps: the value of the
  // flag `steps`; epoch: the steps of an epoch.
  int64_t strategy(std::string_view flag, std::string_view steps, int64_t never);
  void length();
  void sampling();
  void batches_of_ranks();
  void actions();
  void lines();
  void tokens();
  void saving();
  void skip_data();
  void best_model();
  void optimizer();
  void schedule();
  void schedule_kwargs(const HfSchedule& of);
  void lowest_rate(const Json& value);
  double rate_of_optimizer() const;
  void precision();
  void weight_type();
  void compute_in(const std::string& type, std::string_view flag);
  void line(const TrainerFlag& f);

  // True if the value of a flag is the number 0. Such a value turns off a feature that Ravine does not have.
  static bool is_zero(const TrainerFlag& f, const YamlNode& v) { return f.type == DeepSpeedValue::number && v.real == 0; }

  static YamlNode::Ptr default_of(const TrainerFlag& f) {
    std::vector<KeyRefusal> none;
    static const TrainerArguments defaults = read_trainer_flags({}, none);
    return defaults.values.find(f.name)->second;
  }

  const TrainerArguments& a_;
  const DeepSpeedConfig* c_;
  const TrainerFacts& facts_;
  TrainerOutcome& out_;
  bool misread_ = false;
  int64_t steps_ = 0;
  std::map<std::string, std::string> inert_;
};

}  // namespace ravine
