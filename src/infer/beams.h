// Beam search with a model, over several prompts at a time. Each live beam is a sequence of the ragged batch, with a
// slot in the KV cache. The slot is copied only if a beam has more than one continuation.
#pragma once
#include "infer/beam_search.h"

namespace ravine {

// Generates continuations of prompts by beam search: like generate() (infer/generator.h), but each result has the
// `num_return` best beams. The tokens of a prompt are passed to events.token when its search is done. options.batch is
// a number of prompts. A num_return above the number of beams is an Error.
std::vector<Generated> generate_beams(const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts,
                                      const GenerateOptions& options, const BeamOptions& beams, int64_t num_return,
                                      const GenerateEvents& events = {}, const std::string& where = "prompts");

// Beam search as above, with several models that share batches. of[prompt]: index of the prompt's model. beams: the
// options of each prompt model; all have the same number of beams.
std::vector<Generated> generate_beams(std::span<const PromptModel> prompt_models, std::span<const BeamOptions> beams,
                                      std::span<const size_t> of, const std::vector<std::vector<int32_t>>& prompts,
                                      int64_t num_return, const GenerateEvents& events = {},
                                      const std::string& where = "prompts");

}  // namespace ravine
