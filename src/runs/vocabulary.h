// model.vocabulary, model.new_rows, model.tie: the model of model.path with the vocabulary that a run asks for.
#pragma once
#include <memory>

#include "config/config.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace ravine {

// The rows of a run's embedding: vocab_size of its model's config (0 where it has none); of new weights (model.config) at least
// as many as the tokenizer has ids; else what model.vocabulary asks for.
int64_t run_vocabulary(const Config& config, const Json& model_config, int64_t tokenizer_ids);
// What is wrong with a tokenizer of so many ids before an embedding of so many rows (0: not known); "" if nothing is.
std::string vocabulary_trouble(int64_t tokenizer_ids, int64_t rows);

// Of a tokenizer opened at `place` for the model in `folder`, which brings its own: a warning where more than one id in twenty
// stands for another piece; "" where they agree, where one has but more ids than the other, or the folder has none.
std::string foreign_tokenizer_trouble(const Tokenizer& tokenizer, const std::string& place, const std::string& folder);

// What config.json says of the model that a run names: that of model.path, the file of model.config, or the map given there.
Json asked_model_config(const Config& config);

// The config of a model whose weights are new: its vocabulary is the tokenizer's where that has more ids.
Json new_model_config(const Config& config);
// The options are about weights that are there: a UserError where model.config is given.
void refuse_vocabulary_of_new_model(const Config& config);
// The model of model.path, with another vocabulary or tie where the options or the adapter of lora.path ask for one. A
// UserError where ids of the tokenizer would have no row, model.vocabulary=-1 has no tokenizer, or the family has no such tie.
std::unique_ptr<Model> open_resized_model(const Config& config);
// A UserError where the adapter that a run leaves would not hold the tables that it resizes. `model`: with adapters.
void refuse_lost_tables(const Config& config, const Model& model);

}  // namespace ravine
