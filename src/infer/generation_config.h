// generation_config.json of a model folder, as Transformers writes it: default values for generation, and the ids that end it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "infer/beam_search.h"
#include "infer/processors.h"
#include "model/model.h"

namespace ravine {

struct GenerationDefaults {
  Processing processing;  // of the file; top_k is 50 where it says nothing, as in Transformers
  std::optional<int64_t> max_new_tokens, max_length;
  // Of beams.
  double length_penalty = 1;
  EarlyStop early_stopping = EarlyStop::no;
  std::vector<int32_t> end_ids;  // of the file, else of config.json; a list or a single id; -1 there is none
  std::vector<std::string> stop_texts;
  bool sample = false;                   // do_sample
  bool names_top_k = false;              // top_k stands in the file
  bool names_end = false;                // and eos_token_id
  std::vector<std::string> not_offered;  // fields that are set there, would change what is generated, and are not obeyed
};

// Without the file, what config.json says. num_beams is not obeyed, and do_sample in conversations only: elsewhere the
// command line chooses the mode. A field
// of a wrong type or out of range is a UserError naming file and field.
GenerationDefaults read_generation_config(const std::string& folder, const ModelFacts& facts);
GenerationDefaults parse_generation_config(Json json, const std::string& file,
                                           const ModelFacts& facts);  // the same, already read

}  // namespace ravine
