// Reads generation_config.json of a model folder, as Transformers writes it: default options and end ids of generation.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "infer/beam_search.h"
#include "infer/processors.h"
#include "model/model.h"

namespace ravine {

struct GenerationDefaults {
  Processing processing;  // top_k is 50 if the file does not set it, as in Transformers
  std::optional<int64_t> max_new_tokens, max_length;
  // Settings of beam search: length_penalty and early_stopping.
  double length_penalty = 1;
  EarlyStop early_stopping = EarlyStop::no;
  // The ids that end an answer: eos_token_id of the file, or else of config.json. The field is a list or one id; -1
  // means none.
  std::vector<int32_t> end_ids;
  std::vector<std::string> stop_texts;
  bool sample = false;       // do_sample
  bool names_top_k = false;  // the file sets top_k
  bool names_end = false;    // the file sets eos_token_id
  // Names of the fields that the file sets and Ravine does not support, although they would change the result.
  std::vector<std::string> not_offered;
};

// Reads the default options of generation from generation_config.json of a model folder. If the file is missing, the
// end ids are taken from config.json. num_beams is ignored, and do_sample is used in conversations only: otherwise the
// command line selects the mode. A field of a wrong type or out of range is a UserError that names file and field.
GenerationDefaults read_generation_config(const std::string& folder, const ModelFacts& facts);
// Parses the content of a generation_config.json that is already read. `file`: its name in messages. Errors as in
// read_generation_config.
GenerationDefaults parse_generation_config(Json json, const std::string& file, const ModelFacts& facts);

}  // namespace ravine
