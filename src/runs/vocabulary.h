// model.vocabulary, model.new_rows, model.tie: the model of model.path with the vocabulary of a run.
#pragma once
#include <memory>

#include "config/config.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace ravine {

// Returns the number of embedding rows of a run. New weights (model.config) have vocab_size, or the number of tokenizer
// ids if that is larger. Stored weights have model.vocabulary if it is positive, this larger number if it is negative,
// and vocab_size if it is 0. 0 if the config has no vocab_size.
int64_t run_vocabulary(const Config& config, const Json& model_config, int64_t tokenizer_ids);
// Returns the mistake if a tokenizer has more ids than an embedding has rows (0: unknown); "" if there is none.
std::string vocabulary_trouble(int64_t tokenizer_ids, int64_t rows);

// Returns a warning if a tokenizer opened at `place` differs from the tokenizer in the model folder `folder`: more than
// one id in 20 has another piece. "" if both agree, if one only has more ids, or if the folder has no tokenizer.
std::string foreign_tokenizer_trouble(const Tokenizer& tokenizer, const std::string& place, const std::string& folder);

// Returns the config.json of a run's model: of model.path, the file of model.config, or the map in model.config.
Json asked_model_config(const Config& config);

// Returns the config of a new model: its vocab_size is the number of tokenizer ids, if that is larger.
Json new_model_config(const Config& config);
// Throws a UserError if an option for stored tables is set together with new weights (model.config).
void refuse_vocabulary_of_new_model(const Config& config);
// Returns the model of model.path, with another vocabulary or tie if the options or the adapter of lora.path need it. A
// UserError if ids of the tokenizer have no row, model.vocabulary=-1 has no tokenizer, or the family has no such tie.
std::unique_ptr<Model> open_resized_model(const Config& config);
// Throws a UserError if the adapter of a run would not contain the tables that the run resizes. `model`: with adapters.
void refuse_lost_tables(const Config& config, const Model& model);

}  // namespace ravine
