#include "runs/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/missing_path.h"
#include "base/program_name.h"
#include "files/same_path.h"
#include "files/tokenizer_files.h"
#include "io/adapter_weights.h"
#include "io/stored_model.h"
#include "model/vocabulary.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

int64_t vocabulary_in(const Json& config) {
  const bool there =
      // 1024.0 is an integer, too
      config.is_object() && config.contains("vocab_size") && config["vocab_size"].is_number();
  return there && std::abs(config["vocab_size"].get<double>()) < 1e15 ? static_cast<int64_t>(config["vocab_size"].get<double>())
                                                                      : 0;
}

// Returns the number of ids of the run's tokenizer; 0: it has none.
int64_t tokenizer_ids(const Config& c) {
  const std::string where = c.model.tokenizer.empty() ? c.model.path : c.model.tokenizer;
  std::error_code ignored;
  if (fs::is_directory(where, ignored) && !has_tokenizer(where)) return 0;
  return open_tokenizer(where)->size();
}

std::string option_source(const Config& c, const std::string& option) {
  const auto given = c.sources.find(option);
  return given == c.sources.end() ? option : fmt::format("{}, {}", option, given->second);
}

int64_t requested_rows(const Config& c, const Model& stored) {
  const int64_t requested = c.model.vocabulary;
  if (requested == 0) return c.lora.path.empty() ? stored.facts().vocabulary : adapter_vocabulary(c.lora.path, stored);
  const int64_t ids = tokenizer_ids(c);
  if (requested < 0 && ids == 0)
    throw UserError(
        "model.vocabulary=-1 without a tokenizer", option_source(c, "model.vocabulary"),
        "the vocabulary gets a row for each id of the tokenizer, and neither model.tokenizer nor model.path has one",
        "set model.tokenizer, or model.vocabulary to the number of rows");
  if (requested < 0) return std::max(ids, stored.facts().vocabulary);  // unused rows of the stored table are kept
  if (const std::string problem = vocabulary_problem(ids, requested); !problem.empty())
    throw UserError(fmt::format("model.vocabulary={}, and the tokenizer has {} ids", requested, ids),
                    option_source(c, "model.vocabulary"), "every id must have a row in the embedding",
                    fmt::format("set model.vocabulary={} or more (-1: what the tokenizer needs)", ids));
  return requested;
}

}  // namespace

int64_t run_vocabulary(const Config& c, const Json& model_config, int64_t tokenizer_ids) {
  const int64_t rows = vocabulary_in(model_config);
  if (c.model.path.empty()) return rows > 0 ? std::max(rows, tokenizer_ids) : rows;
  return c.model.vocabulary > 0 ? c.model.vocabulary : c.model.vocabulary < 0 ? std::max(rows, tokenizer_ids) : rows;
}

std::string vocabulary_problem(int64_t tokenizer_ids, int64_t rows) {
  return rows > 0 && tokenizer_ids > rows
             ? fmt::format("the tokenizer has {} ids, the model a vocabulary of {}", tokenizer_ids, rows)
             : "";
}

std::string foreign_tokenizer_problem(const Tokenizer& tokenizer, const std::string& tokenizer_path,
                                      const std::string& folder) {
  if (same_path(tokenizer_path, folder) || !fs::is_directory(folder) || !has_tokenizer(folder)) return "";
  constexpr int64_t kMost = 20;  // one id in 20 may have been replaced on purpose
  try {
    const auto own = open_tokenizer(folder);
    const int64_t ids = std::min(own->size(), tokenizer.size());
    int64_t other = 0;
    for (int64_t i = 0; i < ids; ++i)
      other += own->id_to_piece(static_cast<int32_t>(i)) != tokenizer.id_to_piece(static_cast<int32_t>(i));
    if (other * kMost <= ids) return "";
    return fmt::format("model.tokenizer={} is not the tokenizer in {}: {} of {} ids have another meaning there", tokenizer_path,
                       folder, other, ids);
  } catch (const UserError&) {  // the tokenizer of the folder is not needed
    return "";
  }
}

Json requested_model_config(const Config& c) {
  if (c.model.config.empty()) return read_json(c.model.path + "/config.json");
  return is_inline(c.model.config) ? parse_json(c.model.config, "model.config") : read_json(c.model.config);
}

Json new_model_config(const Config& c) {
  Json config = requested_model_config(c);
  if (c.model.tokenizer.empty()) return config;
  if (!fs::exists(c.model.tokenizer)) {
    if (config.is_object() && !config.contains("vocab_size"))
      throw UserError("no such tokenizer", "model.tokenizer=" + c.model.tokenizer,
                      "a new model whose config has no vocab_size gets a row for each of its ids",
                      missing_path_advice(c.model.tokenizer, Hub::models));
    return config;
  }
  if (const int64_t rows = run_vocabulary(c, config, open_tokenizer(c.model.tokenizer)->size()); rows > vocabulary_in(config))
    config["vocab_size"] = rows;
  return config;
}

void refuse_vocabulary_of_new_model(const Config& c) {
  const ModelOptions none;
  auto refuse = [&](const char* option, const std::string& fix) {
    throw UserError(fmt::format("{} with new weights", option), option_source(c, option),
                    "it changes tables that are stored, those of model.path; a new model is as model.config says", fix);
  };
  if (c.model.vocabulary != none.vocabulary || c.model.new_rows != none.new_rows)
    refuse(c.model.vocabulary != none.vocabulary ? "model.vocabulary" : "model.new_rows",
           fmt::format(
               "leave it out: a new model has vocab_size rows of {}, and as many as model.tokenizer has ids where that is more",
               model_label(c.model)));
  if (c.model.tie != none.tie)
    refuse("model.tie", fmt::format("leave it out, and set tie_word_embeddings in {}", model_label(c.model)));
}

std::unique_ptr<Model> open_resized_model(const Config& c) {
  std::unique_ptr<Model> stored = open_stored_model(c.model.path);
  const ModelOptions none;
  if (c.model.new_rows != none.new_rows && c.model.vocabulary == 0)
    throw UserError("model.new_rows without new rows", option_source(c, "model.new_rows"),
                    "it sets the initial values of rows that model.vocabulary adds",
                    "set model.vocabulary too, or leave it out");
  const bool copied = !c.lora.path.empty() && copies_table(*stored, adapter_settings(c.lora.path, *stored));
  const VocabularyChange change{.rows = requested_rows(c, *stored),
                                .tied = c.model.tie == Tie::stored ? is_tied(*stored) && !copied : c.model.tie == Tie::tied,
                                .new_rows = c.model.new_rows,
                                .seed = static_cast<uint64_t>(c.train.seed),
                                .where = option_source(c, c.model.vocabulary != 0   ? "model.vocabulary"
                                                          : c.model.tie != none.tie ? "model.tie"
                                                                                    : "lora.path")};
  if (change.rows == stored->facts().vocabulary && change.tied == is_tied(*stored)) return stored;
  return with_vocabulary(*stored, change);
}

void refuse_lost_tables(const Config& c, const Model& model) {
  const auto& stored = model.stored_vocabulary();
  if (!stored || !c.lora.enabled()) return;
  if (c.model.tie != Tie::stored && is_tied(model) != stored->tied && !c.lora.merge)
    throw UserError("model.tie with an adapter", option_source(c, "model.tie"),
                    "an adapter is used with its stored base, whose tie it cannot change",
                    "set lora.merge=true for a whole model, or leave model.tie out");
  if (model.facts().vocabulary == stored->rows) return;
  auto frozen = [](const Param& p) { return !p.tied && !p.policy.trainable && (p.name == kEmbedding || p.name == kHead); };
  const auto& all = model.params().params();
  if (!c.lora.path.empty() && std::any_of(all.begin(), all.end(), frozen))
    throw UserError(
        "an adapter with tables that it does not train", c.lora.path,
        fmt::format("it holds embedding and head of {} rows, which are not in modules_to_save; the base has {} rows",
                    model.facts().vocabulary, stored->rows),
        fmt::format("make one model of both first ({} merge-lora), and train from that", program_word()));
  if (c.lora.merge) return;
  if (const auto p = std::find_if(all.begin(), all.end(), frozen); p != all.end()) {
    const std::string module = p->name.substr(0, p->name.rfind('.'));
    throw UserError(
        fmt::format("an adapter without the {} whose rows change", p->name == kHead ? "head" : "embedding"),
        option_source(c, "model.vocabulary"),
        fmt::format("an adapter contains only the whole modules that lora.save names: {} with {} rows, where the base has {}, "
                    "would be lost with the run",
                    module, model.facts().vocabulary, stored->rows),
        fmt::format("set lora.save=[{}], or lora.merge=true for a whole model",
                    is_tied(model) ? "embed_tokens" : "embed_tokens, lm_head"));
  }
}

}  // namespace ravine
