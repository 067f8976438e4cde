#include "apps/commands.h"
#include "train/trainer.h"

namespace ravine {
namespace {

struct TrainFlags {
  CommonFlags common;
  template <class V>
  void each(V&& v) {
    common.each(v);
  }
};

int run_train(TrainFlags& flags, Config& config) {
  Log log;
  Trainer trainer(config, flags.common.backend, log);
  trainer.run();
  return 0;
}

}  // namespace

Command train_command() {
  return command<TrainFlags>(
      {.name = "train",
       .summary = "pretraining, continued pretraining and fine-tuning",
       .example = "ravine train model.config=configs/llama-demo.json model.tokenizer=tok/tokenizer.model data.train=[book.txt] train.output=runs/book",
       .sections = {"model", "data", "train", "optimizer", "schedule", "precision", "parallel", "checkpoint", "log", "probe"}},
      "Train", run_train);
}

}  // namespace ravine
