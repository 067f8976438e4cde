// model.vocabulary, model.new_rows, model.tie: the model of model.path with the vocabulary of a run.
#pragma once
#include <memory>

#include "config/config.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace ravine {

// Returns the number of embedding rows of a run's model. New weights (model.config) have vocab_size, or the number of
// tokenizer ids if that is larger. For stored weights the option model.vocabulary decides: a positive value is the
// number; -1 means the larger of vocab_size and the number of tokenizer ids; 0 means vocab_size. Returns 0 if the
// config has no vocab_size.
int64_t run_vocabulary(const Config& config, const Json& model_config, int64_t tokenizer_ids);
// Returns a text on the mistake if a tokenizer has more ids than the embedding has rows; "" if there is none. `rows` of
// 0: unknown, no mistake.
std::string vocabulary_problem(int64_t tokenizer_ids, int64_t rows);

// Returns a warning if a tokenizer differs from the tokenizer in a model folder: more than one id in 20 has another
// piece. "" if both agree, if one only has more ids, or if the folder has no tokenizer. `tokenizer_path`: path of
// `tokenizer` in the message.
std::string foreign_tokenizer_problem(const Tokenizer& tokenizer, const std::string& tokenizer_path, const std::string& folder);

// Returns the config.json of a run's model as the options name it: of model.path, of the file in model.config, or the
// map in model.config.
Json requested_model_config(const Config& config);

// Returns the config.json of a new model (model.config). Its vocab_size is raised to the number of tokenizer ids if
// that is larger.
Json new_model_config(const Config& config);
// Throws a UserError if an option that changes stored embedding tables (model.vocabulary, ..) is set together with new
// weights (model.config).
void refuse_vocabulary_of_new_model(const Config& config);
// Opens the model of model.path, and changes the size of its vocabulary or the tie of embedding and head if options or
// the adapter of lora.path require it. UserErrors: ids of the tokenizer have no row; model.vocabulary=-1 without a
// tokenizer; the model family does not support this tie.
std::unique_ptr<Model> open_resized_model(const Config& config);
// Throws a UserError if a run changes embedding or head (size or tie) and its adapter would not contain them: such an
// adapter cannot be used with the stored base. `model`: the model with its adapter.
void refuse_lost_tables(const Config& config, const Model& model);

}  // namespace ravine
