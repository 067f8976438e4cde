// What is known of a job besides the words of its command line.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "config/config.h"

namespace ravine {

struct MegatronJob {
  std::string program;                         // "pretrain_llama.py"; empty: training with the defaults of 2024
  int64_t ranks = 0;                           // of the job, 0 if that is not known
  bool runs = false;                           // it is run, not explained or printed alone
  std::map<std::string, std::string> written;  // files that a script writes before it starts the program, by path
  // Ids of the tokenizer at a path; 0 if nothing is there. Empty: nobody can tell.
  std::function<int64_t(const std::string& path)> vocabulary;
  // Why Megatron's files cannot hold the checkpoints of a run with these options, in a sentence without a full stop; "" where they
  // can. Empty: nobody can tell.
  std::function<std::string(const Config& config)> beyond_files;
  // What a folder of Megatron's checkpoints says of its run, as values of options (io/convert/held_options.h); an empty object
  // where it says nothing. Empty: nobody can tell.
  std::function<Json(const std::string& folder, int64_t global_batch)> held;
  // What the files in a folder say of their network: {"where": FILE, "arguments": {"num_layers": 2, ..}}, in Megatron's names
  // (io/convert/megatron_arguments.h). Empty: nobody can tell.
  std::function<Json(const std::string& folder)> network;
};

}  // namespace ravine
