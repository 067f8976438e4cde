// A ds_config.json that a search over ZeRO stages and offloads begins from, and the same file with what was found.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

struct DeepSpeedStart {
  Json json;                         // as it was written
  std::vector<std::string> notices;  // what was forgiven
  bool says_batch = false;           // train_batch_size is a number
};

// Reads the file and puts into `options` what it says of batch, optimizer, schedule and arithmetic; "auto" leaves options as they
// are. Syntax, unknown keys and values that the table refuses are a UserError that names all of them.
DeepSpeedStart read_deepspeed_start(const std::string& file, Config& options);

// The file with ZeRO stage, offloads, arithmetic and batches of `chosen`, over so many data ranks; all else as it was written.
std::string deepspeed_json_of(const DeepSpeedStart& start, const Config& chosen, int64_t data_ranks);

}  // namespace ravine
