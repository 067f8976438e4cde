// Reads the ds_config.json that a search over ZeRO stages and offloads starts with, and writes it with the result.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// The contents of the ds_config.json with which a search starts: the result of read_deepspeed_start().
struct DeepSpeedStart {
  Json json;                         // the whole file
  std::vector<std::string> notices;  // tolerated mistakes, one line each
  bool sets_batch = false;           // true: train_batch_size is a number, not "auto" or missing
};

// Reads a ds_config.json, and sets its batch, optimizer, schedule, precision, ZeRO and offload in `options`; "auto"
// leaves an option unchanged. Unknown keys and values that Ravine refuses are one UserError that names all of them.
// Wrong syntax is a UserError.
DeepSpeedStart read_deepspeed_start(const std::string& file, Config& options);

// Returns the text of the ds_config.json in `start`, with ZeRO stage, offloads, precision and batch sizes of `chosen`
// for `data_ranks` data ranks. All other keys are unchanged.
std::string deepspeed_json_of(const DeepSpeedStart& start, const Config& chosen, int64_t data_ranks);

}  // namespace ravine
