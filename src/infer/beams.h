// Beam search with a model: several prompts at a time, every live beam a sequence of the ragged batch with a slot of its own in
// the KV cache. Where a beam is continued more than once its keys and values are copied, else they stay where they are.
#pragma once
#include "infer/beam_search.h"

namespace ravine {

// As generate(): one result per prompt, with its `num_return` best beams. Tokens are handed to events.token when a prompt is
// done. options.batch counts prompts. num_return above the number of beams is an Error.
std::vector<Generated> generate_beams(const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts,
                                      const GenerateOptions& options, const BeamOptions& beams, int64_t num_return,
                                      const GenerateEvents& events = {}, const std::string& where = "prompts");

// The same of several prompt models, as generate(); beams: of each, all with as many.
std::vector<Generated> generate_beams(std::span<const PromptModel> prompt_models, std::span<const BeamOptions> beams,
                                      std::span<const size_t> of, const std::vector<std::vector<int32_t>>& prompts,
                                      int64_t num_return, const GenerateEvents& events = {},
                                      const std::string& where = "prompts");

}  // namespace ravine
