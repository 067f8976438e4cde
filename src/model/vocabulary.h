// Models whose vocabulary, or whose tie of embedding and head, differs from the weight files they begin from.
#pragma once
#include <memory>
#include <string>

#include "model/model.h"

namespace ravine {

inline constexpr const char *kEmbedding = "model.embed_tokens.weight", *kHead = "lm_head.weight";

// True if embedding and head of the model are one table.
bool is_tied(const Model& model);
// Returns the advice of a message on data or a prompt with token `id`, which has no row in the embedding.
std::string more_rows_advice(int64_t id);

// Sets vocab_size in `config` (a config.json) to `rows`, and writes the fields that depended on its old value
// (DecoderSpec::implied).
void set_vocabulary(Json& config, const Json& implied, int64_t rows);

struct VocabularyChange {
  int64_t rows = 0;
  bool tied = false;
  NewRows new_rows = NewRows::mean;
  uint64_t seed = 0;
  std::string where;  // for messages: the option that sets it
};
// Returns a copy of the model `stored` with another vocabulary size or tie of embedding and head. Its
// stored_vocabulary() describes the weight files of `stored`; it is empty if nothing changes. A UserError if an eos,
// bos or padding id has no row any more, or if the family cannot be tied so.
std::unique_ptr<Model> with_vocabulary(const Model& stored, const VocabularyChange& change);

// Returns names and layout of the parameters in the files that the model begins from, if their vocabulary differs
// (stored_vocabulary()); else model.files(). Tables have the stored number of rows; parameters begin with the first of
// these rows. A head that is not stored is read from the embedding.
WeightFiles stored_files(const Model& model);

// Returns a text on how the vocabulary differs from the files, for example "300 rows are stored, 4 new ones: the mean
// of the stored"; "" if files are read as they are.
std::string vocabulary_text(const Model& model);

}  // namespace ravine
