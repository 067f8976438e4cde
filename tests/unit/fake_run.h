// A run for tests of hooks, without model, data or steps: a folder, a log, and the values that hooks request.
#pragma once
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "tests/unit/files_temporary.h"
#include "train/hooks.h"
#include "train/run_view.h"

namespace ravine {

class FakeRun : public RunView {
 public:
  explicit FakeRun(int64_t steps = 4) {
    options.train.output = folder / "run";
    options.train.steps = steps;
    std::filesystem::create_directory(options.train.output);
    lines.quiet(true);
    lines.open(folder / "log.txt");
  }
  const Config& config() const override { return options; }
  Log& log() override { return lines; }
  std::string path(const std::string& name) const override { return options.train.output + "/" + name; }
  std::optional<ValidationResult> validate() override {
    return loss ? std::optional(ValidationResult{.loss = *loss, .labels = labels, .preferences = {}}) : std::nullopt;
  }
  void follow(double validation_loss) override { followed.push_back(validation_loss); }
  void save_checkpoint(int64_t step) override { saved.push_back(step); }
  bool is_saved(int64_t step) override { return complete == step; }
  void begin_window() override { ++windows; }
  const Json& model_config() const override { return model; }
  int64_t samples() const override { return rows; }
  const StepReport* last_report() const override { return last ? &*last : nullptr; }

  // Returns the log text since the previous call.
  std::string logged() {
    const std::string all = slurp(folder / "log.txt"), fresh = all.substr(read_bytes_);
    read_bytes_ = all.size();
    return fresh;
  }
  std::vector<Json> metrics() const {
    std::vector<Json> out;
    std::ifstream in(path("metrics.jsonl"));
    for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
    return out;
  }

  TemporaryFolder folder;
  Config options;
  Json model = Json::object();
  int64_t rows = 80;
  Log lines;
  std::optional<double> loss;       // over the validation data
  int64_t labels = 1;               // labels in the validation data
  std::optional<int64_t> complete;  // step whose checkpoint is complete
  std::optional<StepReport> last;   // null: no step was made
  std::vector<double> followed;
  std::vector<int64_t> saved;
  int windows = 0;

 private:
  size_t read_bytes_ = 0;
};

}  // namespace ravine
