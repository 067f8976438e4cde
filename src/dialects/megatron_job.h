// Facts about a job of Megatron in addition to the words of its command line.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// The functions come from a higher room. An empty function means that the fact is not known.
struct MegatronJob {
  std::string program;                         // "pretrain_llama.py"; empty: training with the defaults of 2024
  int64_t ranks = 0;                           // of the job; 0 if not known
  bool runs = false;                           // the job runs; false: it is only explained or printed
  std::map<std::string, std::string> written;  // texts of files that the script writes before the launch, by path
  // Returns the number of ids of the tokenizer at a path; 0 if there is no tokenizer.
  std::function<int64_t(const std::string& path)> vocabulary;
  // Returns why Megatron's files cannot store the checkpoints of a run with these options: a sentence without a full
  // stop; "" if they can.
  std::function<std::string(const Config& config)> beyond_files;
  // Returns the options that are stored in a folder of Megatron's checkpoints (io/convert/held_options.h); an empty
  // object if no options can be read.
  std::function<Json(const std::string& folder, int64_t global_batch)> held;
};

}  // namespace ravine
