// Facts about a job of Megatron in addition to the words of its command line.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

// Facts about a job of Megatron in addition to the words of its command line. The caller fills them, also the
// functions, which need higher rooms. An empty function: the fact is not known.
struct MegatronJob {
  std::string program;                         // "pretrain_llama.py"; empty: training with the defaults of 2024
  int64_t ranks = 0;                           // number of ranks of the job; 0: not known
  bool runs = false;                           // true: the job runs; false: it is only explained or printed
  std::map<std::string, std::string> written;  // texts of files that the script writes before the launch, by path
  // Returns the size of the vocabulary of the tokenizer at a path; 0 if there is no tokenizer.
  std::function<int64_t(const std::string& path)> vocabulary;
  // Returns the reason why the checkpoints of a run with these options cannot be written in Megatron's format: a
  // sentence without a full stop; "" if they can.
  std::function<std::string(const Config& config)> beyond_files;
  // Returns the options of the run that has written a folder of Megatron's checkpoints, as stored there
  // (io/convert/held_options.h); an empty object if no options can be read.
  std::function<Json(const std::string& folder, int64_t global_batch)> held;
  // Returns the network of the files in a folder, in Megatron's names (io/convert/megatron_arguments.h):
  // {"where": FILE, "arguments": {"num_layers": 2, ..}}. Empty: unknown.
  std::function<Json(const std::string& folder)> network;
};

}  // namespace ravine
