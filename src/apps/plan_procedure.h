// `ravine plan --procedure`: the nine steps of the DeepSpeed guide for a ds_config.json, with planned bytes, and the
// file with the first step that fits.
#pragma once
#include <string>
#include <vector>

#include "dialects/deepspeed_procedure.h"
#include "kernels/backend.h"
#include "model/model.h"

namespace ravine {

// The settings of `ravine plan --procedure`, from its flags.
struct ProcedureCall {
  std::string json;  // path of the file to write; "": print it
  bool as_json = false, overwrite = false, free_batch = false;
  int ranks = 1;
  int64_t memory = 0;  // bytes per rank
  Backend backend = Backend::cpu;
};

// Returns the arguments of `ravine plan` with `--config FILE.json` replaced by `--deepspeed FILE.json`, if --procedure
// is among them.
std::vector<std::string> procedure_words(const std::vector<std::string>& words);

// Prints the steps of the procedure with planned bytes. `options` are the result of `start`. Returns the exit status: 0
// if a step fits into the memory, else 1.
int print_procedure(Model& model, const Config& options, const DeepSpeedStart& start, const ProcedureCall& call);

}  // namespace ravine
