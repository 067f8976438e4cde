#include "model/vocabulary.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "model/decoder.h"

namespace ravine {
namespace {

bool is_table(const FileTensor& t) {
  return t.params.size() == 1 && (t.params[0]->name == kEmbedding || t.params[0]->name == kHead);
}

void refuse_lost_ids(const ModelFacts& f, const VocabularyChange& change) {
  auto refuse = [&](const char* key, int64_t id) {
    if (id < change.rows) return;
    throw UserError(fmt::format("a vocabulary of {}, and {} is {}", change.rows, key, id), change.where,
                    "every id that the model names must have a row in the embedding",
                    fmt::format("ask for {} rows or more, or change {} in config.json", id + 1, key));
  };
  for (const int64_t id : f.eos) refuse("eos_token_id", id);
  refuse("bos_token_id", f.bos);
  refuse("pad_token_id", f.pad);
}

}  // namespace

bool is_tied(const Model& model) {
  const auto& all = model.params().params();
  return std::any_of(all.begin(), all.end(), [](const Param& p) { return p.name == kHead && p.tied; });
}

std::string more_rows_advice(int64_t id) {
  if (id < 0) return "use ids of the tokenizer that belongs to the model";
  return fmt::format(
      "use the tokenizer that belongs to the model, or give the model a row for it: model.vocabulary={} or more in a "
      "training, convert --resize-vocab {} (of a new model vocab_size)",
      id + 1, id + 1);
}

void set_vocabulary(Json& config, const Json& implied, int64_t rows) {
  for (const auto& [key, value] : implied.items())
    if (!config.contains(key)) config[key] = value;
  config["vocab_size"] = rows;
}

std::unique_ptr<Model> with_vocabulary(const Model& stored, const VocabularyChange& change) {
  require(stored.decoder() != nullptr && !stored.stored_vocabulary(), "vocabulary: the model is not as its files are");
  const StoredVocabulary was{stored.facts().vocabulary, is_tied(stored), change.new_rows, change.seed};
  refuse_lost_ids(stored.facts(), change);
  Json config = stored.config();
  if (change.rows != was.rows) set_vocabulary(config, stored.decoder()->implied, change.rows);
  if (change.tied != was.tied) config["tie_word_embeddings"] = change.tied;
  std::unique_ptr<Model> model = make_model(config, change.where);
  if (is_tied(*model) != change.tied)
    throw UserError(fmt::format("the {} family {}", stored.facts().family, change.tied ? "has no tied head" : "ties its head"),
                    change.where, "config.json of this family has no field to change this", "leave model.tie out");
  if (change.rows != was.rows || change.tied != was.tied) model->set_stored_vocabulary(was);
  return model;
}

WeightFiles stored_files(const Model& model) {
  WeightFiles files = model.files();
  const auto& stored = model.stored_vocabulary();
  if (!stored) return files;
  const FileTensor* head = nullptr;
  for (FileTensor& t : files.tensors) {
    if (!is_table(t)) continue;
    t.shape[0] = stored->rows;
    t.runs = {{0, 0, 0, std::min(stored->rows, t.params[0]->shape[0])}};
    if (t.params[0]->name == kHead) head = &t;
  }
  if (!stored->tied || !head) return files;
  const FileTensor copy = *head;
  files.copies.push_back(copy.name);
  std::erase_if(files.tensors, [&](const FileTensor& t) { return t.name == copy.name; });
  for (FileTensor& t : files.tensors) {
    if (!is_table(t)) continue;
    t.params.push_back(copy.params[0]);
    t.runs.push_back({1, 0, 0, copy.runs[0].count});
  }
  return files;
}

std::string vocabulary_text(const Model& model) {
  const auto& stored = model.stored_vocabulary();
  if (!stored) return "";
  std::string out;
  const int64_t rows = model.facts().vocabulary;
  if (rows > stored->rows)
    out = fmt::format("{} rows are stored, {}: {}", stored->rows, counted(rows - stored->rows, "new one"),
                      stored->new_rows == NewRows::mean ? "the mean of the stored" : "normal numbers");
  if (rows < stored->rows) out = fmt::format("{} rows are stored, the first {} are taken", stored->rows, rows);
  for (const Param& p : model.params().params())
    if (rows > stored->rows && !p.tied && !p.policy.trainable && (p.name == kEmbedding || p.name == kHead))
      out += fmt::format("; {} is frozen, and they stay so", p.name);
  const bool tied = is_tied(model);
  if (tied != stored->tied)
    out += fmt::format("{}{}", out.empty() ? "" : "; ",
                       tied ? "the table of the embedding is the head too, in place of the stored head"
                            : "the head begins as a copy of the embedding, to which it is tied in the files");
  return out;
}

}  // namespace ravine
