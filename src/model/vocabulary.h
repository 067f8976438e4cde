// Models whose vocabulary, or whose tie of embedding and head, differs from the weight files they begin from.
#pragma once
#include <memory>
#include <string>

#include "model/model.h"

namespace ravine {

inline constexpr const char *kEmbedding = "model.embed_tokens.weight", *kHead = "lm_head.weight";

// True if embedding and head are one table.
bool is_tied(const Model& model);
// Returns the advice for data or a prompt with an id that has no row in the tables.
std::string more_rows_advice(int64_t id);

// Sets vocab_size in config.json, and writes the fields that depended on its old value (DecoderSpec::implied).
void set_vocabulary(Json& config, const Json& implied, int64_t rows);

struct VocabularyChange {
  int64_t rows = 0;
  bool tied = false;
  NewRows new_rows = NewRows::mean;
  uint64_t seed = 0;
  std::string where;  // for messages: the option that sets it
};
// Returns the model of `stored`'s config.json with the change. Its stored_vocabulary() describes `stored`, whose files
// it begins from; it is empty if nothing changes. A UserError if an eos, bos or padding id has no row any more, or if
// the family cannot be tied so.
std::unique_ptr<Model> with_vocabulary(const Model& stored, const VocabularyChange& change);

// Returns model.files() with the layout of the files that the model begins from. Tables have the stored number of rows;
// parameters begin with the first of these rows. A head that is not stored is read from the embedding.
WeightFiles stored_files(const Model& model);

// Returns a text of the change, for example "300 rows are stored, 4 new ones: the mean of the stored"; "" if files are
// read as they are.
std::string vocabulary_text(const Model& model);

}  // namespace ravine
