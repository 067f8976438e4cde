// Models whose vocabulary, or whose tie of embedding and head, is another than that of the files they begin from.
#pragma once
#include <memory>
#include <string>

#include "model/model.h"

namespace ravine {

inline constexpr const char *kEmbedding = "model.embed_tokens.weight", *kHead = "lm_head.weight";

bool is_tied(const Model& model);
// What helps where data or a prompt have an id that no row of the tables stands for.
std::string more_rows_advice(int64_t id);

// config.json with another vocabulary; it takes the fields that followed from the one it had (DecoderSpec::implied).
void set_vocabulary(Json& config, const Json& implied, int64_t rows);

struct VocabularyChange {
  int64_t rows = 0;
  bool tied = false;
  NewRows new_rows = NewRows::mean;
  uint64_t seed = 0;
  std::string where;  // for messages: what asks for it
};
// The model of `stored`'s config.json, changed so; its stored_vocabulary() is that of `stored`, whose files it begins from. Of
// what is the same already nothing is recorded. A UserError where an end, begin or padding id has no row any more, or the
// family cannot be tied so.
std::unique_ptr<Model> with_vocabulary(const Model& stored, const VocabularyChange& change);

// model.files() as the files that the model begins from have them: tables are of stored rows, of which the first ones are those
// of the parameters; a head that they lack is the embedding's tensor once more.
WeightFiles stored_files(const Model& model);

// "vocabulary 260 of model.path's 256, new rows the mean of those; the head begins as a copy of the embedding"; "" where files
// are read as they are.
std::string vocabulary_text(const Model& model);

}  // namespace ravine
