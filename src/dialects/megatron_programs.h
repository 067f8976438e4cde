// Programs of Megatron-LM and ModelLink that do not train: each becomes a command line of ours.
#pragma once
#include "dialects/dialect.h"
#include "dialects/megatron_job.h"

namespace ravine {

// What each of them takes beside the flags of training.
DialectTable megatron_evaluation_rows();
DialectTable megatron_inference_rows();
DialectTable megatron_preprocess_table();
DialectTable megatron_conversion_table();

Translation translate_evaluation(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_inference(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_preprocessing(const std::vector<PlacedWord>& words, const MegatronJob& job);
Translation translate_conversion(const std::vector<PlacedWord>& words, const MegatronJob& job);

}  // namespace ravine
